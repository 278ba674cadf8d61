// The page's settings and its translated words, both written by the server as JSON.

const read = (id) => JSON.parse(document.getElementById(id).textContent);

export const config = read("allm-config");
const words = read("allm-words");

/** The words for `key`, with {placeholders} filled in. A missing key shows itself. */
export function t(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

const PLACE = /\{(\w+)\}/;
const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
const spoken = Object.entries(config.spoken ?? {}).map(([text, words]) => ({
  pattern: new RegExp(`^${text.split(/\{\w+\}/).map(escaped).join("([^]+?)")}$`),
  names: [...text.matchAll(new RegExp(PLACE, "g"))].map(([, name]) => name),
  words,
}));

/** What the server says in English wherever it is read, in the page's language if it is a text that is known. */
export function said(text) {
  for (const { pattern, names, words: translated } of spoken) {
    const found = pattern.exec(text ?? "");
    if (found) return translated.replace(new RegExp(PLACE, "g"), (_, name) => said(found[names.indexOf(name) + 1]));
  }
  return text;
}

const language = document.documentElement.lang || undefined;
const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(language, { dateStyle: "long" });
const moment = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const count = new Intl.NumberFormat(language);
const dollars = new Intl.NumberFormat(language, { style: "currency", currency: "USD", maximumFractionDigits: 4 });

export const number = (value) => count.format(value);
export const money = (value) => dollars.format(value);
export const timeOfDay = (iso) => (iso ? clock.format(new Date(iso)) : "");
/** The server's clock ahead of this one, in milliseconds: times to come are counted by the server's. */
const ahead = config.now ? Date.parse(config.now) - Date.now() : 0;

/** The time of day; of another day, the date too. */
export const shortTime = (iso) => (new Date(iso).toDateString() === new Date().toDateString() ? timeOfDay(iso) : fullTime(iso));

/** How long it is until then: "in 12 min", or that the time is up. */
export function timeLeft(iso) {
  const now = Date.now() + ahead;
  return new Date(iso) <= now ? t("time_up") : t("in_time", { time: duration(now, iso) });
}

export const fullTime = (iso) => (iso ? moment.format(new Date(iso)) : "");

/** "Today", "Yesterday" or the date. */
export function day(iso, now = new Date()) {
  const midnight = (value) => new Date(value.getFullYear(), value.getMonth(), value.getDate());
  const days = Math.round((midnight(now) - midnight(new Date(iso))) / 86400000);
  if (days === 0) return t("today");
  return days === 1 ? t("yesterday") : date.format(new Date(iso));
}

/** A length of time in few words: "0.4 s", "12 s", "3 min", "2 h". */
export function duration(from, to = null) {
  const seconds = Math.max(0, (to ? new Date(to) : new Date()) - new Date(from)) / 1000;
  if (seconds < 10) return t("seconds", { n: count.format(Math.round(seconds * 10) / 10) });
  if (seconds < 90) return t("seconds", { n: count.format(Math.round(seconds)) });
  if (seconds < 5400) return t("minutes", { n: count.format(Math.round(seconds / 60)) });
  return seconds < 172800 ? t("hours", { n: count.format(Math.round(seconds / 3600)) }) : t("days", { n: count.format(Math.round(seconds / 86400)) });
}

/** How long ago, in whole units. */
export function since(iso) {
  return Date.now() - new Date(iso) < 60000 ? t("just_now") : t("ago", { time: duration(iso) });
}
