// Drives the official AG-UI client: steps as JSON on stdin, what the client has after each as JSON lines on stdout.
import { HttpAgent } from "@ag-ui/client";
import { readFileSync } from "node:fs";

const { url, token, steps, state, threadId } = JSON.parse(readFileSync(0, "utf8"));
const headers = { Authorization: `Bearer ${token}` };
const agent = new HttpAgent({ url, headers, threadId, initialState: state });
for (const { add = [], keep, run = {}, abortOn } of steps) {
  if (keep !== undefined) agent.setMessages(agent.messages.slice(0, keep));
  agent.addMessages(add);
  const types = [];
  let error = null, pending = null;
  const subscriber = {
    onEvent: ({ event }) => {
      types.push(event.type);
      if (event.type === abortOn) agent.abortRun();
    },
    onRunFinishedEvent: (finished) => { pending = finished.pendingToolCallIds ?? null; },
    onRunErrorEvent: ({ event }) => { error = { message: event.message, code: event.code }; },
  };
  try {
    await agent.runAgent(run, subscriber);
  } catch (failure) {
    error ??= { message: String(failure.message ?? failure) };
  }
  const { messages, state, pendingInterrupts: interrupts } = agent;
  console.log(JSON.stringify({ types, messages, state, interrupts, pending, error }));
}
