// Facts about one thing: their names and values; those without a value are left out.

import type { ComponentChildren, JSX } from "preact";

export type Fact = [name: string, value: ComponentChildren];

export function Facts({ facts }: { facts: Fact[] }): JSX.Element {
  const shown = facts.filter(([, value]) => value || value === 0);
  return (
    <dl>
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
