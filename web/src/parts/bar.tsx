// A small bar for a share between 0 and 1, with its meaning as text for those who do not see it.

import type { JSX } from "preact";

export function Bar({ share, label }: { share: number; label: string }): JSX.Element {
  return (
    <span class="meter" role="img" aria-label={label} title={label}>
      <span style={{ width: `${Math.round(Math.min(1, Math.max(0, share)) * 100)}%` }} />
    </span>
  );
}
