"""The node types there are. To add one: its file, and its line here.

A node's module is imported when a workflow first uses it: sixty of them would else cost every start a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points

import structlog

from convoq.contract.node import AnyNode, MainNode
from convoq.contract.node_tool import SUFFIX, NodeTool

log = structlog.get_logger()

PLUGINS = "convoq.nodes"
"""The entry-point group of other packages' nodes: `"type.name" = "package.module:NodeClass"`."""
LANGCHAIN = "@n8n/n8n-nodes-langchain"

NODES: Mapping[str, str] = {
    # triggers
    f"{LANGCHAIN}.chatTrigger": "triggers.chat_trigger:ChatTriggerNode",
    f"{LANGCHAIN}.manualChatTrigger": "triggers.chat_trigger:ManualChatTriggerNode",
    "n8n-nodes-base.manualTrigger": "triggers.manual_trigger:ManualTriggerNode",
    "n8n-nodes-base.start": "triggers.manual_trigger:ManualTriggerNode",
    "n8n-nodes-base.executeWorkflowTrigger": "triggers.execute_workflow_trigger:ExecuteWorkflowTriggerNode",
    # flow
    "n8n-nodes-base.if": "flow.if_:IfNode",
    "n8n-nodes-base.filter": "flow.filter:FilterNode",
    "n8n-nodes-base.switch": "flow.switch:SwitchNode",
    "n8n-nodes-base.merge": "flow.merge:MergeNode",
    "n8n-nodes-base.compareDatasets": "flow.compare_datasets:CompareDatasetsNode",
    "n8n-nodes-base.splitInBatches": "flow.loop:LoopNode",
    "n8n-nodes-base.wait": "flow.wait:WaitNode",
    "n8n-nodes-base.noOp": "flow.no_op:NoOpNode",
    "n8n-nodes-base.stopAndError": "flow.stop_and_error:StopAndErrorNode",
    "n8n-nodes-base.respondToWebhook": "flow.respond_to_webhook:RespondToWebhookNode",
    "n8n-nodes-base.executeWorkflow": "flow.execute_workflow:ExecuteWorkflowNode",
    # data
    "n8n-nodes-base.set": "data.edit_fields:EditFieldsNode",
    # HTTP
    "n8n-nodes-base.httpRequest": "http.http_request:HttpRequestNode",
    # agents and chains
    f"{LANGCHAIN}.agent": "agents.agent:AgentNode",
    f"{LANGCHAIN}.chainLlm": "chains.basic_llm:BasicLLMNode",
    f"{LANGCHAIN}.chainRetrievalQa": "chains.retrieval_qa:RetrievalQANode",
    f"{LANGCHAIN}.chainSummarization": "chains.summarization:SummarizationNode",
    f"{LANGCHAIN}.informationExtractor": "chains.information_extractor:InformationExtractorNode",
    f"{LANGCHAIN}.sentimentAnalysis": "chains.sentiment_analysis:SentimentAnalysisNode",
    f"{LANGCHAIN}.textClassifier": "chains.text_classifier:TextClassifierNode",
    # apps
    f"{LANGCHAIN}.googleGemini": "apps.google_gemini:GoogleGeminiNode",
    f"{LANGCHAIN}.openAi": "apps.openai:OpenAINode",
    # models
    f"{LANGCHAIN}.lmChatOpenAi": "models.openai_chat:OpenAIChatModelNode",
    f"{LANGCHAIN}.lmChatAnthropic": "models.anthropic:AnthropicModelNode",
    f"{LANGCHAIN}.lmChatAwsBedrock": "models.aws_bedrock:BedrockModelNode",
    f"{LANGCHAIN}.lmChatAzureOpenAi": "models.azure_openai:AzureOpenAIModelNode",
    f"{LANGCHAIN}.lmChatCohere": "models.compatible:CohereModelNode",
    f"{LANGCHAIN}.lmChatDeepSeek": "models.compatible:DeepSeekModelNode",
    f"{LANGCHAIN}.lmChatGoogleGemini": "models.compatible:GeminiModelNode",
    f"{LANGCHAIN}.lmChatGroq": "models.compatible:GroqModelNode",
    f"{LANGCHAIN}.lmChatMistralCloud": "models.compatible:MistralModelNode",
    f"{LANGCHAIN}.lmChatOllama": "models.compatible:OllamaModelNode",
    f"{LANGCHAIN}.lmChatOpenRouter": "models.compatible:OpenRouterModelNode",
    f"{LANGCHAIN}.lmChatVercelAiGateway": "models.compatible:VercelModelNode",
    f"{LANGCHAIN}.lmChatXAiGrok": "models.compatible:GrokModelNode",
    "convoq.lmChatMock": "models.mock_chat:MockChatModelNode",
    f"{LANGCHAIN}.lmChatMock": "models.mock_chat:MockChatModelNode",
    # output parsers
    f"{LANGCHAIN}.outputParserAutofixing": "parsers.autofixing:AutofixingParserNode",
    f"{LANGCHAIN}.outputParserItemList": "parsers.item_list:ItemListParserNode",
    f"{LANGCHAIN}.outputParserStructured": "parsers.structured:StructuredParserNode",
    # tools
    f"{LANGCHAIN}.agentTool": "agents.agent_tool:AgentToolNode",
    f"{LANGCHAIN}.toolSerpApi": "tools.serp_api:SerpApiNode",
    f"{LANGCHAIN}.toolThink": "tools.think:ThinkNode",
    f"{LANGCHAIN}.toolWikipedia": "tools.wikipedia:WikipediaNode",
    f"{LANGCHAIN}.toolWorkflow": "tools.workflow:WorkflowToolNode",
    f"{LANGCHAIN}.toolCalculator": "tools.calculator:CalculatorNode",
    # memory
    f"{LANGCHAIN}.memoryBufferWindow": "memory.simple:SimpleMemoryNode",
    f"{LANGCHAIN}.memoryRedisChat": "memory.redis_chat:RedisChatMemoryNode",
    f"{LANGCHAIN}.memoryPostgresChat": "memory.postgres_chat:PostgresChatMemoryNode",
    f"{LANGCHAIN}.memoryMongoDbChat": "memory.mongodb_chat:MongoChatMemoryNode",
    f"{LANGCHAIN}.memoryZep": "memory.simple:ZepMemoryNode",
    f"{LANGCHAIN}.memoryXata": "memory.simple:XataMemoryNode",
    f"{LANGCHAIN}.memoryMotorhead": "memory.simple:MotorheadMemoryNode",
    f"{LANGCHAIN}.memoryManager": "memory.manager:MemoryManagerNode",
    "convoq.windowMemory": "memory.window:WindowMemoryNode",
    "window_memory": "memory.window:WindowMemoryNode",
    "convoq.memorySummary": "memory.summary:SummaryMemoryNode",
    "summary_memory": "memory.summary:SummaryMemoryNode",
    "convoq.memoryTokenWindow": "memory.token_window:TokenWindowMemoryNode",
    "convoq.memoryWhole": "memory.whole:WholeMemoryNode",
    "whole_memory": "memory.whole:WholeMemoryNode",
    "convoq.chatHistory": "memory.chat_history:ChatHistoryNode",
    "chat_history": "memory.chat_history:ChatHistoryNode",
    # retrieval
}


def by_type(nodes: Iterable[type[AnyNode]]) -> Mapping[str, AnyNode]:
    """One node of each class, under its type name and the aliases of that."""
    return {name: made for node in nodes for made in [node()] for name in (node.type, *node.aliases)}


class Registry(Mapping[str, AnyNode]):
    """Node types by their full names: convoq's own, and those of installed packages."""

    def __init__(self, nodes: Mapping[str, str], plugins: str = PLUGINS) -> None:
        self._places = {name: f"{__package__}.{place}" for name, place in nodes.items()}
        for point in entry_points(group=plugins):
            if point.name in self._places:
                log.warning("a package's node has the name of one of convoq's: left out", type=point.name)
            else:
                self._places[point.name] = point.value
        self._made: dict[str, AnyNode] = {}

    def __getitem__(self, name: str) -> AnyNode:
        if (made := self._made.get(name)) is not None:
            return made
        if (place := self._places.get(name)) is None:
            return self._made.setdefault(name, self._as_tool(name))
        module, _, attribute = place.partition(":")
        node: AnyNode = getattr(import_module(module), attribute)()
        return self._made.setdefault(name, node)

    def _as_tool(self, name: str) -> NodeTool:
        """n8n's `…Tool` types: a main node that a model may call. Raises `KeyError`."""
        inner = self[name.removesuffix(SUFFIX)] if name.endswith(SUFFIX) and name != SUFFIX else None
        if not isinstance(inner, MainNode) or inner.is_trigger:
            raise KeyError(name)
        return NodeTool(inner)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


REGISTRY = Registry(NODES)
