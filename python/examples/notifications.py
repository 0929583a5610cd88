"""Notifications: routed by what they say, urgent ones first, delivered by signed webhooks.

Each channel is a subscription with a filter that the database evaluates. The provider of text
messages is a webhook; while it is down the relay rests, and nothing is lost or counted. A number
that the provider refuses is tried again by the queue's policy, and ends as a dead letter.
"""

import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg

import pgq
import pgq.embedded
from pgq.relay import Relay, open_destination

down = True


class Provider(BaseHTTPRequestHandler):
    """Sends text messages."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status = 503 if down else 200 if body["payload"]["to"].isdigit() else 422
        if status == 200:
            signed = self.headers["webhook-signature"].startswith("v1,")
            print("sms:", body["payload"]["text"], "(signed)" if signed else "")
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


with (
    HTTPServer(("127.0.0.1", 0), Provider) as provider,
    pgq.embedded.start() as server,
    psycopg.connect(server.dsn(), autocommit=True) as conn,
    pgq.connect(server.dsn()) as client,
):
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    conn.execute("create extension pgq")
    client.subscribe("mail", "notify", {"kind": "mail"})
    client.subscribe("sms", "notify", {"kind": "sms"})
    client.alter_queue("sms", max_attempts=2, backoff=timedelta(milliseconds=1))

    def notify(kind: str, to: str, text: str, **options: object) -> None:
        client.publish("notify", {"to": to, "text": text}, headers={"kind": kind}, **options)

    notify("sms", "12345", "your parcel is on its way")
    notify("sms", "12345", "your account is locked", priority=10)
    notify("sms", "nobody", "hello")
    notify("mail", "ada@example.com", "your invoice")
    notify("mail", "ada@example.com", "happy birthday", delay=timedelta(days=30))

    url = f"http://127.0.0.1:{provider.server_port}"
    sms = open_destination(url, secret="geheim")
    sms.batch_size = 1
    breaker = pgq.CircuitBreaker(failures=2, reset=timedelta(seconds=0.5))
    relay = Relay(client, "sms", sms, breaker=breaker, drain=True)
    running = threading.Thread(target=relay.run)
    running.start()
    while breaker.state != "open":
        running.join(0.01)
    print("the provider is down, the circuit is open")
    down = False
    running.join()
    print(relay.forwarded, "sent")
    with client.claim("mail", n=10) as mails:
        for mail in mails:
            print("mail:", mail.payload["text"])
    for row in conn.execute("select payload ->> 'to', error from pgq.dead_letter"):
        print("refused:", *row)
    provider.shutdown()

# Prints:
# the provider is down, the circuit is open
# sms: your account is locked (signed)
# sms: your parcel is on its way (signed)
# 2 sent
# mail: your invoice
# refused: nobody HTTP 422
