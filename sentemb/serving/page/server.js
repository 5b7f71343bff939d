"use strict";

// What the server is asked. Addresses are relative, so that a proxy may serve the page below a path of its own.

const KEY = "sentemb-key";
const TRIES = 4;

class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function ask(path, body, signal) {
  const headers = { accept: "application/json" };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  for (let attempt = 1; ; attempt++) {
    const answer = await sent(path, { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body) });
    if (answer.ok) return answer.json();
    const problem = await answer.json().catch(() => ({}));
    signal?.throwIfAborted();
    if (![429, 503].includes(answer.status) || attempt === TRIES) {
      throw new Refused(answer.status, problem.detail || `The server answered with status ${answer.status}.`);
    }
    await pause(1000 * (Number(answer.headers.get("retry-after")) || 1), signal);
  }
}

async function sent(path, options) {
  try {
    return await fetch(path, { cache: "no-store", credentials: "omit", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server cannot be reached.");
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

const indexPath = (name, rest) => `v1/indexes/${encodeURIComponent(name)}/${rest}`;
const askStats = (name) => ask(indexPath(name, "stats"));
const askHits = (name, body, signal) => ask(indexPath(name, "search"), body, signal);
const askLike = (name, body, signal) => ask(indexPath(name, "similar"), body, signal);

// An id is written as JSON where it is a number or looks like one.
async function askDocument(name, id) {
  const found = await ask(indexPath(name, `documents?id=${encodeURIComponent(JSON.stringify(id))}`));
  return found.documents[0];
}
