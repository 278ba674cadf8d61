// Commands and questions to the server over HTTP. News come by the socket (socket.js).

import { parse } from "./json.js";
import { config, said, t } from "./words.js";

const PAUSES = [600, 1800];
const UNSURE = new Set([502, 503, 504]);

/** An answer that is not a success, or none at all (status 0). `problem` is the server's problem+json. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(said(problem.detail || problem.title) || t("error_unknown"));
    this.status = status;
    this.problem = problem;
    this.code = problem.code ?? "";
  }
}

/** One key for one act of a person; sent again with each retry of that act, so that it happens once. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const csrf = () => document.querySelector("[name=csrfmiddlewaretoken]")?.value ?? "";
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function once(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { detail: t("error_network") });
  }
  const body = await response.text();
  let data = {};
  try {
    data = body ? parse(body) : {};
  } catch {
    data = { title: t("error_unknown") };
  }
  if (!response.ok) throw new ApiError(response.status, data);
  return data;
}

/** GET below the API's root. `params` with null or "" are left out. */
export function get(path, params = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== ""));
  return once(`${config.api}${path}${query.size ? `?${query}` : ""}`, { signal, headers: { Accept: "application/json" } });
}

/** POST below the API's root; tried again with the same key while it is unsure whether the server heard it. */
export async function post(path, body = {}, key = newKey()) {
  const headers = {
    Accept: "application/json",
    "Content-Type": "application/json",
    "X-CSRFToken": csrf(),
    "Idempotency-Key": key,
  };
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await once(`${config.api}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    } catch (error) {
      const unsure = error instanceof ApiError && (error.status === 0 || UNSURE.has(error.status));
      if (!unsure || attempt === PAUSES.length) throw error;
      await pause(PAUSES[attempt]);
    }
  }
}

/** Keeps the key of an act that failed in doubt, so that pressing the same button again is the same act. */
export class Act {
  #made = "";
  #key = "";

  async send(path, body) {
    const made = JSON.stringify([path, body]);
    if (made !== this.#made) [this.#made, this.#key] = [made, newKey()];
    try {
      const answer = await post(path, body, this.#key);
      this.#made = "";
      return answer;
    } catch (error) {
      if (error.status >= 400 && error.status < 500) this.#made = "";
      throw error;
    }
  }
}
