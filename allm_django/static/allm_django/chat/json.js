// JSON without loss: whole numbers that JavaScript can't hold keep their digits.

/** Parse a text; an integer beyond 2^53 becomes JSON.rawJSON where the browser knows it (and prints as it was). */
export function parse(source) {
  if (!JSON.rawJSON) return JSON.parse(source);
  return JSON.parse(source, (_key, value, context) => {
    const exact = typeof value !== "number" || Number.isSafeInteger(value) || !/^-?\d+$/.test(context.source);
    return exact ? value : JSON.rawJSON(context.source);
  });
}

const UNSEEN = /[\p{Cf}\p{Co}\p{Zl}\p{Zp}\u007F-\u009F\u115F\u1160\u3164\uFFA0]/gu;
const units = (character) => Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");

/** JSON to read and edit: indented, invisible characters as escapes, so that they are seen and survive. */
export const pretty = (value) => (JSON.stringify(value, null, 2) ?? "").replace(UNSEEN, units);

/** Whether two JSON values are the same: keys in any order, items in order, 1 and 1.0 alike. */
export function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || !a || !b || Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}

/** Whether a whole number that JavaScript can't hold is somewhere inside. */
export const holdsRaw = (value) =>
  typeof value === "object" && value !== null && (Boolean(JSON.isRawJSON?.(value)) || Object.values(value).some(holdsRaw));

const isTree = (value) => typeof value === "object" && value !== null && !JSON.isRawJSON?.(value);

/** Every leaf that differs: [{path: [key, …], before, after}]; a missing side is undefined. */
export function changes(before, after, path = []) {
  if (same(before, after)) return [];
  if (!isTree(before) || !isTree(after) || Array.isArray(before) !== Array.isArray(after)) return [{ path, before, after }];
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const side = (tree, key) => (Object.hasOwn(tree, key) ? tree[key] : undefined);
  return keys.flatMap((key) => changes(side(before, key), side(after, key), [...path, key]));
}

/** A value in one line, for lists: texts bare, the rest as JSON. */
export const brief = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");
