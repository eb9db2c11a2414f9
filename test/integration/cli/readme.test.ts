import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { IN_A_CLUSTER } from './in-a-cluster.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const readme = readFileSync(resolve(ROOT, 'README.md'), 'utf8');

function blocks(language: string): string[] {
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, text]) => text ?? '');
}

it('the README has exactly the commands that the tests and CI run', () => {
  // `npm ci` and `npm test` are CI's own job, npm-start.test.ts and start-on-cluster.test.ts run the others.
  expect(blocks('sh')).toEqual([
    'npm ci && npm start\n',
    'npm ci && npm test\n',
    'npm start -- --kubeconfig FILE --functions replicaset --no-sample --port N\n',
    'npm start -- --functions examples/01-minimal\n',
    // manifest.test.ts runs these.
    ...IN_A_CLUSTER,
    // doctor.test.ts runs this.
    'npm run -s levelhook doctor\n',
    // bench.test.ts runs these, with less to do.
    ['line', 'rollout', 'namespaces', 'endpoints', 'nodes', 'failover', 'replicas', 'rest', 'webhooks']
      .map((name) => `npm run bench ${name}\n`)
      .join(''),
  ]);
});

it('the first function in the README is the file in functions/examples, letter by letter', () => {
  const file = readFileSync(resolve(ROOT, 'functions/examples/01-minimal/greeting.ts'), 'utf8');
  expect(blocks('ts')).toEqual([file]);
});

it('the documents lead to files that are there', () => {
  const documents = globSync('{README.md,{src,functions,infra,test}/**/*.md}', { cwd: ROOT });
  expect(documents.length).toBeGreaterThan(30);
  const broken = documents.flatMap((document) => {
    const text = readFileSync(resolve(ROOT, document), 'utf8');
    return [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)]
      .filter(([, path = '']) => !existsSync(resolve(ROOT, dirname(document), path)))
      .map(([, path]) => `${document}: ${path}`);
  });
  expect(broken).toEqual([]);
});
