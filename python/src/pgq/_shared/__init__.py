"""What the code for asyncio and the code for threads share. It imports neither."""
