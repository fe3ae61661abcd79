// The command that does the same as a button or a page, ready to copy.

import type { JSX } from "preact";
import { useState } from "preact/hooks";

export function Command({ text }: { text: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  }
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" class="quiet" aria-label={`Copy ${text}`} onClick={() => void copy()}>
        {copied ? "copied" : "copy"}
      </button>
    </span>
  );
}
