// Labels as a person types them for `tarmac label`: KEY=VALUE, or KEY- to remove one.

const CHANGE = /^([^=]+?)(?:=(.*)|-)$/;

/** What an input for one change has. */
export const LABEL_INPUT = {
  placeholder: "KEY=VALUE, or KEY- to remove it",
  required: true,
  pattern: "[^=]+=.*|[^=]+-",
};

/** The change of labels in a text. */
export function labelChange(text: string): Record<string, string | null> {
  const [, key = "", value] = CHANGE.exec(text) ?? [];
  return { [key]: value ?? null };
}
