/** Stands in place of a credential. */
const REDACTED = '[redacted]';

/**
 * Texts that are credentials by their form, each with the beginning that stays. No pattern looks at a character more
 * than a bounded number of times, because the texts come from functions.
 */
const CREDENTIALS: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g, REDACTED],
  // JSON Web Tokens: those of ServiceAccounts are of this form.
  [/(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?/g, REDACTED],
  [/\bwhsec_[\w+/=-]+/g, REDACTED],
  // GitHub, GitLab, Slack, Stripe, Google, AWS, npm, OpenAI and Anthropic.
  [/\b(?:gh[pousr]_|github_pat_|glpat-|xox[a-z]-|[rs]k_(?:live|test)_|AIza|npm_|sk-)[\w-]{16,}/g, REDACTED],
  [/\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g, REDACTED],
  [/\b(Bearer|Basic) +[\w.~+/=-]{8,}/gi, `$1 ${REDACTED}`],
  // `https://user:password@host`
  [/(:\/\/[^\s/:@]{0,200}:)[^\s/@]{1,200}@/g, `$1${REDACTED}@`],
  // `password=...`, `"apiKey": "..."`. The words alone are no credential, so a value behind a space has a digit.
  [/((?:password|passwd|pwd|secret)["']?=["']?)[^\s"',;&]+/gi, `$1${REDACTED}`],
  [
    /((?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key)["']?(?:=|: ?)["']?)(?=[^\s"',;&]{0,200}\d)[^\s"',;&]{8,}/gi,
    `$1${REDACTED}`,
  ],
];

/**
 * The text without what looks like a credential. Functions must send none; this catches what a library puts into the
 * text of an error. It knows forms and names, so it finds neither all secrets nor only secrets.
 */
export function redacted(text: string): string {
  let shown = text;
  for (const [pattern, replacement] of CREDENTIALS) shown = shown.replace(pattern, replacement);
  return shown;
}
