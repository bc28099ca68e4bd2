"""Providers' words for why a model stopped, as ours."""

from __future__ import annotations

WORDS = {
    "stop": ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"),
    "tool_calls": ("tool_calls", "tool_call", "tool_use", "function_call"),
    "length": ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"),
    "content_filter": (
        *("content_filter", "content_filtered", "guardrail_intervened", "safety", "sensitive", "refusal"),
        *("recitation", "blocklist", "prohibited_content", "spii"),
    ),
}
"""As documented by OpenAI, Anthropic, Google, Mistral, Bedrock, Zhipu, Hugging Face's text generation."""
FAILED = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})
"""Of OpenRouter, vLLM and SGLang, Zhipu, DeepSeek: the server, not the model, stopped."""
_OURS = {word: ours for ours, words in WORDS.items() for word in words}


def finish_reason(word: str) -> str:
    """The reason as `Finish` has it; a word that is not known stays as it is."""
    return _OURS.get(word) or _OURS.get(word.lower(), word)
