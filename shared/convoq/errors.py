"""Every failure convoq can name.

    ConvoqError                     500 internal
    ├── BadRequest                  400 bad_request
    │   ├── BodyTooLarge            413 body_too_large
    │   ├── BadBody                 422 bad_body
    │   ├── BadSession              400 bad_session
    │   ├── HeadTooLarge            431 head_too_large
    │   └── RequestTimeout          408 request_timeout
    ├── Unauthorized                401 unauthorized
    ├── Forbidden                   403 forbidden
    ├── NotFound                    404 not_found
    │   ├── UnknownPath             404 unknown_path
    │   ├── InactiveWorkflow        404 inactive_workflow
    │   └── UnknownExecution        404 unknown_execution
    ├── Conflict                    409 conflict
    │   └── SessionBusy             409 session_busy
    ├── Gone                        410 gone
    ├── Unavailable                 503 unavailable
    │   ├── Overloaded              503 overloaded
    │   └── ShuttingDown            503 shutting_down
    ├── ConfigError                 500 bad_config       (CLI: exit code 2)
    ├── InvalidWorkflow             422 invalid_workflow (all faults of a file at once)
    └── ExecutionFailed             500 execution_failed
        ├── NodeFailed              500 node_failed
        │   ├── BadParameter        500 bad_parameter
        │   ├── NodeUnsupported     501 node_unsupported
        │   ├── CredentialMissing   500 credential_missing
        │   ├── NeedsNetwork        502 needs_network    (`convoq check --run`, where nothing reaches it)
        │   ├── ExpressionFailed    500 expression_failed
        │   ├── CodeFailed          500 code_failed
        │   ├── ModelFailed         502 model_failed
        │   │   ├── ModelTimedOut   504 model_timed_out
        │   │   └── EmptyAnswer     502 empty_answer     (neither text nor a tool call)
        │   ├── ToolFailed          500 tool_failed
        │   ├── MemoryFailed        500 memory_failed
        │   │   └── MemoryUnavailable 503 memory_unavailable (its server is away, full or read-only)
        │   ├── StoreFailed         502 store_failed     (a vector store)
        │   ├── RequestFailed       502 request_failed   (an HTTP request of a node)
        │   │   ├── EgressRefused   403 egress_refused   (an address that nodes may not connect to)
        │   │   └── ResponseTooLarge 502 response_too_large
        │   ├── OutputNotParsed     500 output_not_parsed
        │   ├── BinaryGone          410 binary_gone
        │   ├── BinaryTooLarge      413 binary_too_large
        │   └── TooManyIterations   500 too_many_iterations
        ├── Fenced                  409 fenced           (another attempt has taken the execution over)
        ├── TimedOut                504 timed_out
        ├── Stopped                 499 stopped
        ├── Displaced               409 displaced        (a newer message of the session took its place)
        ├── WorkerLost              502 worker_lost
        └── StreamTooLarge          500 stream_too_large

An error carries data; the API's one handler makes the response (JSON `{"code", "message", …}`), the worker's makes an
`error` chunk. The message quotes the culprit and never a secret (what an address holds before its last `@` is left out
whoever quotes it); it may name servers, tables and nodes, so strangers read the class's `public` sentence instead,
where it has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from convoq.addresses import scrub


class ConvoqError(Exception):
    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    public: ClassVar[str | None] = "Something went wrong on the server."
    """What strangers read of it. None: the message itself, which is about what they did."""

    def __init__(self, message: str, **details: object) -> None:
        self.message = scrub(message)
        super().__init__(self.message)
        self.details = details

    def as_dict(self) -> dict[str, object]:
        """The JSON body of an error answer: `code`, `message` and what else is known."""
        return {"code": self.code, "message": self.message, **self.details}


class BadRequest(ConvoqError):
    status, code = 400, "bad_request"
    public = None


class BodyTooLarge(BadRequest):
    status, code = 413, "body_too_large"


class BadBody(BadRequest):
    status, code = 422, "bad_body"


class BadSession(BadRequest):
    code = "bad_session"


class HeadTooLarge(BadRequest):
    status, code = 431, "head_too_large"


class RequestTimeout(BadRequest):
    status, code = 408, "request_timeout"


class Unauthorized(ConvoqError):
    status, code = 401, "unauthorized"
    public = None


class Forbidden(ConvoqError):
    status, code = 403, "forbidden"
    public = None


class NotFound(ConvoqError):
    status, code = 404, "not_found"
    public = None


class UnknownPath(NotFound):
    code = "unknown_path"


class InactiveWorkflow(NotFound):
    code = "inactive_workflow"


class UnknownExecution(NotFound):
    code = "unknown_execution"


class Conflict(ConvoqError):
    status, code = 409, "conflict"
    public = None


class SessionBusy(Conflict):
    code = "session_busy"


class Gone(ConvoqError):
    status, code = 410, "gone"
    public = None


class Unavailable(ConvoqError):
    status, code = 503, "unavailable"
    public = "The service cannot take messages at the moment. Please try again shortly."


class Overloaded(Unavailable):
    code = "overloaded"
    public = "Too many messages are waiting at the moment. Please try again shortly."


class ShuttingDown(Unavailable):
    code = "shutting_down"
    public = "The service is being restarted. The answer goes on: read it again in a moment."


class ConfigError(ConvoqError):
    code = "bad_config"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in a workflow file. `parameter` is a dotted path, empty when the node itself is at fault."""

    node: str
    parameter: str
    message: str

    def __str__(self) -> str:
        where = f"{self.node!r}" if self.node else "workflow"
        return f"{where}{f' parameter {self.parameter!r}' if self.parameter else ''}: {self.message}"


class InvalidWorkflow(ConvoqError):
    status, code = 422, "invalid_workflow"
    public = "This chat is not set up correctly."

    def __init__(self, name: str, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        lines = "; ".join(map(str, self.faults))
        super().__init__(
            f"workflow {name!r} has {len(self.faults)} fault(s): {lines}",
            faults=[{"node": f.node, "parameter": f.parameter, "message": f.message} for f in self.faults],
        )


class ExecutionFailed(ConvoqError):
    code = "execution_failed"
    public: ClassVar[str | None] = "The message could not be answered."


class NodeFailed(ExecutionFailed):
    """A node of the workflow failed. `details["node"]` is its name (the runner fills it in)."""

    code = "node_failed"
    public = "The message could not be answered: a step of the workflow failed."


class BadParameter(NodeFailed):
    code = "bad_parameter"


class NodeUnsupported(NodeFailed):
    status, code = 501, "node_unsupported"


class NeedsNetwork(NodeFailed):
    status, code = 502, "needs_network"


class CredentialMissing(NodeFailed):
    code = "credential_missing"


class StoreFailed(NodeFailed):
    status, code = 502, "store_failed"


class RequestFailed(NodeFailed):
    """`details["http_status"]` is the answer's status, where there was one."""

    status, code = 502, "request_failed"


class EgressRefused(RequestFailed):
    status, code = 403, "egress_refused"


class ResponseTooLarge(RequestFailed):
    code = "response_too_large"


class OutputNotParsed(NodeFailed):
    code = "output_not_parsed"


class BinaryGone(NodeFailed):
    status, code = 410, "binary_gone"


class BinaryTooLarge(NodeFailed):
    status, code = 413, "binary_too_large"


class ExpressionFailed(NodeFailed):
    code = "expression_failed"


class CodeFailed(NodeFailed):
    """JavaScript of a node's failed. `details["line"]` is the line where that is known."""

    code = "code_failed"


class ModelFailed(NodeFailed):
    status, code = 502, "model_failed"
    public = "The language model could not answer."


class ModelTimedOut(ModelFailed):
    status, code = 504, "model_timed_out"
    public = "The language model did not answer in time."


class EmptyAnswer(ModelFailed):
    code = "empty_answer"
    public = "The language model answered nothing."


class ToolFailed(NodeFailed):
    code = "tool_failed"
    public = "A tool that the answer needs failed."


class MemoryFailed(NodeFailed):
    code = "memory_failed"
    public = "The memory of this conversation could not be reached."


class MemoryUnavailable(MemoryFailed):
    status, code = 503, "memory_unavailable"


class TooManyIterations(NodeFailed):
    code = "too_many_iterations"
    public = "The assistant found no answer within the steps it may take."


class Fenced(ExecutionFailed):
    status, code = 409, "fenced"


class TimedOut(ExecutionFailed):
    status, code = 504, "timed_out"
    public = "The answer took too long and was ended."


class Stopped(ExecutionFailed):
    status, code = 499, "stopped"
    public = None


class Displaced(ExecutionFailed):
    status, code = 409, "displaced"
    public = None


class WorkerLost(ExecutionFailed):
    status, code = 502, "worker_lost"
    public = "The answer was cut off on our side before it was complete. Please try again."


class StreamTooLarge(ExecutionFailed):
    code = "stream_too_large"
    public = "The answer is longer than what can be sent."


def public_text(code: str) -> str | None:
    """What strangers read of a failure with that code; None where its message is for them."""
    return _public_texts().get(code, ConvoqError.public)


@cache
def _public_texts() -> dict[str, str | None]:
    def below(kind: type[ConvoqError]) -> Iterator[type[ConvoqError]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    return {kind.code: kind.public for kind in below(ConvoqError)}
