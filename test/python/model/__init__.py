"""Random operations on three connections, each compared with a simple model of the promises.

In the model a message becomes ready when it is due, is redelivered when its lease has expired, and
becomes a dead letter after its last attempt or its expiry. All other changes need an operation. An
ordering group has one message in progress at a time, and the waiting message with the lowest id is
next. The state is read before and after every operation, on the connection itself and by an
observer that sees committed data. Every difference must be one that the model allows. So a message
that is lost, duplicated, held twice, out of order or counted wrongly is found immediately, with the
steps that led there.
"""
