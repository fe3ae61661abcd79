// Characters that are invisible or reorder text, as signs: what a run or a user wrote cannot disguise itself.

import { options } from "preact";

/** The characters, in a class of a pattern. Written with escapes: they are invisible. */
export const HIDDEN =
  "\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff";

const PATTERN = new RegExp(`[${HIDDEN}]`, "g");

/** A sign for a hidden character: as `cat -v` writes it, or its number. */
export function signOf(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x20
    ? `^${String.fromCharCode(64 + code)}`
    : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

// Every text that the page shows, and every title and label, passes here.
options.vnode = (node: { type: unknown; props: unknown }) => {
  if (typeof node.props === "string") node.props = node.props.replace(PATTERN, signOf);
  else if (typeof node.type === "string")
    for (const [name, value] of Object.entries(node.props as object))
      if (typeof value === "string" && /^(title|aria-label)$/.test(name))
        Object.assign(node.props as object, { [name]: value.replace(PATTERN, signOf) });
};
