// A small bar for a share between 0 and 1, with its meaning as text for those who do not see it.

import type { JSX } from "preact";

export function Bar(props: { share: number; label: string; long?: boolean }): JSX.Element {
  const { share, label, long } = props;
  const style = { "--share": `${Math.round(100 * Math.min(1, Math.max(0, share)))}%` };
  return (
    <span class={long ? "meter long" : "meter"} style={style} role="img" aria-label={label} title={label} />
  );
}
