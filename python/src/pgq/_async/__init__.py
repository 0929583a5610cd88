"""The client, consumers, publishers and transports, for asyncio."""
