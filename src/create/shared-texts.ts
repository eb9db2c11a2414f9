import type { Language, ProjectOptions } from './project-options.ts';

// The texts of the files that a project has in each language.

const SETUP: Readonly<Record<Language, string>> = {
  typescript: '',
  python: "      - uses: actions/setup-python@v6\n        with: { python-version: '3.13' }\n",
  go: "      - uses: actions/setup-go@v6\n        with: { go-version: '1.24' }\n",
};

/** `.github/workflows/ci.yml` */
export function workflow({ language, packageManager }: ProjectOptions): string {
  const [install, run] =
    packageManager === 'pnpm'
      ? ['npm install --global pnpm && pnpm install --frozen-lockfile', 'pnpm']
      : ['npm ci', 'npm'];
  const check = language === 'typescript' ? `      - run: ${run} run check\n` : '';
  return `name: ci
on: [push, pull_request]
permissions: { contents: read }
jobs:
  test:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v7
${SETUP[language]}      - uses: actions/setup-node@v7
        with: { node-version: 24 }
      - run: ${install}
${check}      - run: ${run} test
      - run: ${run} run test:cluster
`;
}

/** `README.md`: it has the next five commands. */
export function readme(options: ProjectOptions): string {
  const { language, name, packageManager } = options;
  const { kind, own } = options.kind;
  const [test, run, exec] =
    packageManager === 'pnpm' ? ['pnpm test', 'pnpm', 'pnpm exec'] : ['npm test', 'npm run', 'npx'];
  const afterChange = own && language === 'typescript' ? `After a change of \`src/kinds.ts\`: \`${run} crds\`. ` : '';
  return `# ${name}

A controller for ${kind}s on [levelhook](https://github.com/levelhook/levelhook): ${files(options)}

\`\`\`sh
${test}
${run} dev
kubectl --kubeconfig .levelhook/control-plane/kubeconfig apply -f deploy/sample.yaml
${exec} levelhook explain ${name} default/hello
${run} test:cluster
\`\`\`

1. The tests run the controller against an apiserver in memory.
2. \`dev\` runs it on a cluster of its own, starts it again when a file changes, and prints a line for each run. The next
   two commands need another terminal.
3. The sample makes it run.
4. \`explain\` says why it ran, and what it waits for.
5. These tests run it against a real apiserver.

${afterChange}To deploy it, build the image of the Dockerfile, and install the chart \`levelhook-functions\` with
\`deploy/values.yaml\`${own ? ', after `kubectl apply -f crds`' : ''}.
`;
}

/** Says which file has what. */
function files({ kind, language, name }: ProjectOptions): string {
  if (language === 'typescript') {
    return `\`src/${name}.ts\`.${kind.own ? ' The kind is in\n`src/kinds.ts`, and `crds` is made from it.' : ''}`;
  }
  const [file, parts] =
    language === 'go'
      ? ['`main.go`', 'The signature, the\ncache and the writes are in the folder `levelhook`']
      : ['`function.py`', 'The signature, the\nreads and the writes are in `levelhook.py`'];
  return `${file}. ${parts}, which is yours to change.${kind.own ? ' The kind is defined in `crds`.' : ''}`;
}
