"""Which tools does a provider run itself? Each is declared here, judged before it is offered, and labelled."""

from agentkit.hosted.tool import HostedTool as HostedTool

__all__ = ["HostedTool"]
