// How a call's state looks: an icon, a word and a tone; never a colour alone.

import { isOpen } from "./store.js";
import { t } from "./words.js";

const OPEN = {
  ready: ["clock", "running"],
  pending: ["clock", "waiting"],
  executing: ["run", "running"],
  asking: ["question", "waiting"],
  delegated: ["steps", "running"],
  unknown: ["unknown", "unknown"],
};
const SETTLED = {
  succeeded: ["done", "done"],
  answered: ["answered", "done"],
  failed: ["failed", "failed"],
  invalid: ["failed", "failed"],
  rejected: ["rejected", "failed"],
  denied: ["rejected", "failed"],
  unavailable: ["rejected", "failed"],
  expired: ["clock", "quiet"],
  superseded: ["rejected", "quiet"],
  cancelled: ["rejected", "quiet"],
};

/** {icon, tone, word} of a call; a recipe that only waits for people says so. */
export function look(call, steps = []) {
  if (call.state === "delegated" && waits(steps)) return { icon: "clock", tone: "waiting", word: t("state_steps_wait") };
  const settled = call.state === "settled";
  const [icon, tone] = (settled ? SETTLED[call.outcome] : OPEN[call.state]) ?? ["unknown", "quiet"];
  return { icon, tone, word: t(settled ? `outcome_${call.outcome}` : `state_${call.state}`) };
}

/** Whether none of these steps runs, and one waits for a person. */
function waits(steps) {
  const open = steps.filter((step) => step.state !== "settled");
  return open.length > 0 && open.every(isOpen);
}

const LETS_RUN = new Set(["approve", "edit", "retry"]);

/** One honest sentence about how a call was settled by people or time, or "". */
export function settledBy(call) {
  const { decided, approvals } = call;
  if (!decided) return "";
  const several = approvals?.length > 1 && LETS_RUN.has(decided.verb) && approvals.map(({ by }) => by).join(", ");
  return t(`decided_${decided.verb}`, { name: several || decided.by || t("someone") });
}

/** The word for a session's status, and its tone. */
export function sessionLook(session) {
  const tones = { running: "running", awaiting_user: "waiting", awaiting_tools: "waiting", error: "failed" };
  return { tone: tones[session.status] ?? "quiet", word: ended(session) || t(`status_${session.status}`) };
}

/** The word for an end before the assistant was done. */
function ended(session) {
  const reason = session.status === "completed" ? session.run?.halted_reason : null;
  if (!reason || reason === "completed") return "";
  return reason === "cancelled" ? t("status_cancelled") : t("status_halted");
}
