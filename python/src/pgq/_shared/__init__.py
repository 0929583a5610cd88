"""Code that the packages for asyncio and for threads share; it imports neither of them."""
