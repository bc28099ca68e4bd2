"""Chat models: the adapters to providers, and what is done with their answers.

OpenAI's protocol by aiohttp and msgspec, the hot path; every other provider through pydantic-ai.
"""
