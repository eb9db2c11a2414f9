import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { IN_A_CLUSTER } from './in-a-cluster.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const read = (file: string): string => readFileSync(resolve(ROOT, file), 'utf8');

function blocks(file: string, language: string): string[] {
  return [...read(file).matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, text]) => text ?? '');
}

it('the README has exactly the commands that the tests and CI run', () => {
  // `npm ci` and `npm test` are CI's own job, npm-start.test.ts and start-on-cluster.test.ts run the others.
  expect(blocks('README.md', 'sh')).toEqual([
    'npm ci && npm start\nnpm start -- --functions examples/01-minimal\n',
    'npm ci && npm test\n',
  ]);
});

it('the documents of a cluster and of the results have exactly the commands that tests run', () => {
  expect(blocks('infra/docs/in-a-cluster.md', 'sh')).toEqual([
    // manifest.test.ts runs these.
    ...IN_A_CLUSTER,
    // doctor.test.ts runs this.
    'npm run -s levelhook doctor\n',
    // start-on-cluster.test.ts runs this.
    'npm start -- --kubeconfig FILE --functions replicaset --no-sample --port N\n',
  ]);
  expect(blocks('test/bench/RESULTS.md', 'sh')).toEqual([
    // bench.test.ts runs these, with less to do.
    ['line', 'rollout', 'namespaces', 'endpoints', 'nodes', 'failover', 'replicas', 'rest', 'webhooks']
      .map((name) => `npm run bench ${name}\n`)
      .join(''),
  ]);
});

it('the first function in the README is the file in functions/examples, letter by letter', () => {
  const file = read('functions/examples/01-minimal/greeting.ts');
  expect(blocks('README.md', 'ts')).toEqual([file]);
});
