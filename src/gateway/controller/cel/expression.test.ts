import { describe, expect, it } from 'vitest';
import type { KubernetesObject } from '../../../core/index.ts';
import { CpuBudgets } from './cpu-budget.ts';
import { createExpression, CUT_OFF, type EvaluationError } from './expression.ts';
import { ExpressionError, parseExpression } from './parse-expression.ts';

const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'x',
    namespace: 'n',
    uid: 'u',
    resourceVersion: '7',
    generation: 2,
    labels: { app: 'web', constructor: 'yes' },
    creationTimestamp: '2026-01-02T03:04:05Z',
  },
  spec: {
    replicas: 3,
    ratio: 0.5,
    odd: 9007199254740993n,
    max: 9223372036854775807n,
    beyond: 9223372036854775808n,
    containers: [
      { name: 'a', image: 'nginx:1' },
      { name: 'b', image: 'redis:7' },
    ],
    paused: null,
  },
  data: {
    password: 'hunter2',
    many: Array.from({ length: 3000 }, (_, at) => `value-${at}`),
    words: 'a'.repeat(100_000),
  },
} satisfies KubernetesObject & Record<string, unknown>;

function ask(text: string, options: { result?: 'bool' | 'names'; old?: KubernetesObject; now?: () => number } = {}) {
  const errors: EvaluationError[] = [];
  const { result = 'bool', old, now } = options;
  const report = (error: EvaluationError): void => void errors.push(error);
  const budget = new CpuBudgets(now ? { now } : {}).of('web');
  const expression = createExpression(text, { result, hasOld: true, report, budget });
  return { value: expression.evaluate(pod, old), errors, expression };
}

describe('an expression', () => {
  it.each([
    'object.metadata.name == "x"',
    'object.spec.replicas == 3 && object.spec.replicas + 1 == 4 && object.spec.replicas % 2 == 1',
    'object.spec.odd == 9007199254740993 && object.spec.odd != 9007199254740992 && object.spec.odd + 1 == 9007199254740994',
    'object.spec.max > 9223372036854775806 && type(object.spec.max) == int && string(object.spec.max) == "9223372036854775807"',
    'type(object.spec.beyond) == double && object.spec.beyond == 9223372036854775808.0',
    'object.spec.replicas * 2.0 == 6.0 && object.spec.replicas / 2.0 == 1.5 && 0.5 + object.spec.replicas == 3.5 && 0.5 - object.spec.replicas == -2.5',
    'object.spec.ratio < 1 && object.spec.ratio * 2.0 == 1.0',
    // The apiserver's admission policies say the same of a whole number in a field of type number.
    'object.spec.replicas / 2 == 1 && double(object.spec.replicas) / 2.0 == 1.5 && double(object.spec.ratio) / 2.0 == 0.25',
    'object.spec.containers.exists(c, c.image.startsWith("redis"))',
    'object.spec.containers.all(c, size(c.name) == 1)',
    'object.spec.containers.filter(c, c.name == "a")[0].image.matches("^nginx:[0-9]$")',
    'object.spec.containers.map(c, c.name) == ["a", "b"]',
    'has(object.spec.replicas) && !has(object.spec.nothing) && !has(object.status)',
    '"app" in object.metadata.labels && object.metadata.labels["app"] in ["web", "api"]',
    'object.metadata.labels.constructor == "yes" && !has(object.metadata.constructor)',
    'object.metadata.labels.all(key, key != "other") && size(object.metadata.labels) == 2',
    'object.metadata.labels == {"constructor": "yes", "app": "web"}',
    'object.spec.paused == null && type(object.spec.replicas) == int',
    'timestamp(object.metadata.creationTimestamp) < timestamp("2026-02-01T00:00:00Z")',
    'duration("90s") > duration("1m")',
    'object == object && oldObject == null',
    'object.spec.nothing == 1 || true',
    'string(object.spec.replicas) == "3" ? true : false',
  ])('%s', (text) => {
    const { value, errors } = ask(text);
    expect(errors).toEqual([]);
    expect(value).toBe(true);
  });

  it('compares with the object as it was', () => {
    const old = { ...pod, spec: { ...pod.spec, replicas: 2 } };
    expect(ask('oldObject != null && object.spec.replicas > oldObject.spec.replicas', { old }).value).toBe(true);
    expect(ask('object.spec == oldObject.spec', { old }).value).toBe(false);
    expect(ask('object.spec == oldObject.spec', { old: structuredClone(pod) }).value).toBe(true);
    expect(ask('true').expression.usesOld).toBe(false);
    expect(ask('object.spec.containers.all(oldObject, oldObject.name != "")').expression.usesOld).toBe(false);
    expect(ask('object == oldObject').expression.usesOld).toBe(true);
  });

  it('gives a name or several where names are asked for', () => {
    expect(ask('object.metadata.name', { result: 'names' }).value).toBe('x');
    expect(ask('object.spec.containers.map(c, c.name)', { result: 'names' }).value).toEqual(['a', 'b']);
    expect(ask('[]', { result: 'names' }).value).toEqual([]);
  });

  it.each([
    ['object.spec.nothing.more == 1', 'error', 'field not found at line 1, column 12'],
    [
      'object.metadata.name + 1 == "x"',
      'error',
      "found no matching overload for '_+_' applied to '(string, int)' at line 1, column 22",
    ],
    ['object.spec.replicas', 'type', 'does not evaluate to true or false'],
    ['"true"', 'type', 'does not evaluate to true or false'],
    ['1 / 0 == 1', 'error', 'int divide by zero'],
    ['int(object.data.password) == 1', 'error', 'failed at line 1, column 1'],
    ['object.metadata.labels[object.data.password] == ""', 'error', 'field not found at line 1, column 1'],
    ['"x".matches(object.data.password + "(")', 'error', 'failed at line 1, column 4'],
  ])('%s has no answer, and tells nothing of what the object holds', (text, reason, message) => {
    const { value, errors } = ask(text);
    expect(value).toBeUndefined();
    expect(errors).toEqual([{ reason, message }]);
    expect(JSON.stringify(errors)).not.toContain('hunter2');
  });

  it.each(['["x", 1]', 'true', 'object.metadata', 'null'])('%s is no name', (text) => {
    const { value, errors } = ask(text, { result: 'names' });
    expect(value).toBeUndefined();
    expect(errors).toEqual([{ reason: 'type', message: 'does not evaluate to a string or a list of strings' }]);
  });
});

describe('an expression that takes too long', () => {
  const HOSTILE = 'object.data.many.all(a, object.data.many.all(b, object.data.many.all(c, a + b != c)))';

  it.each([HOSTILE, 'object.data.many.map(a, object.data.many.map(b, a + b)).size() == 0'])('%s is ended', (text) => {
    const from = performance.now();
    const { value, errors } = ask(text);
    expect(value).toBe(CUT_OFF);
    expect(errors).toEqual([{ reason: 'time', message: expect.stringMatching(/^took longer than \d+ ms$/) }]);
    expect(performance.now() - from).toBeLessThan(10_000);
  });

  it('uses up what its controller has, and is left out until that is back', () => {
    let skipped = 0;
    const { expression, errors } = ask(HOSTILE, { now: () => performance.now() + skipped });
    for (let count = 0; count < 1000; count += 1) expect(expression.evaluate(pod, undefined)).toBe(CUT_OFF);
    const evaluated = (): number => errors.filter(({ message }) => message.startsWith('took longer')).length;
    expect(errors).toHaveLength(1001);
    // All evaluations share 300 ms. On a busy machine they take more wall time than that.
    expect(evaluated()).toBeLessThan(200);
    expect(ask('object.spec.replicas == 3').value).toBe(true);
    const before = evaluated();
    skipped += 60_000;
    expression.evaluate(pod, undefined);
    expect(evaluated()).toBe(before + 1);
  });
});

it.each([
  ['object.a == 1', 0, true],
  ['object.a + object.b + [object, object] == object.c', 0, true],
  ['object.a.matches("a*")', 0, false],
  ['object.l.all(x, x in ["a", "b"])', 1, true],
  ['object.l.map(x, x.name).filter(y, y != "")', 2, true],
  ['object.l.all(x, x + x == "")', 1, false],
  ['object.l.map(x, [x, x]) == object.l', 1, false],
  ['object.l.exists(x, {"a": x} == object)', 1, false],
  ['object.l.all(x, x.matches("a"))', 1, false],
])('%s loops, and is bounded by what it looks at, as often as it is said', (text, loops, bounded) => {
  expect(parseExpression(text, ['object'])).toMatchObject({ loops, bounded });
});

describe('an expression that cannot be used', () => {
  const nested = (depth: number): string => 'object.l.all(x, '.repeat(depth) + 'true' + ')'.repeat(depth);

  it.each([
    ['object.spec ==', 'end of input'],
    ['object.spec.size = 3', 'found = but expecting end of input at line 1, column 18'],
    ['true &&\n  object.?a', 'at line 2, column 9'],
    ['objct.a == 1', 'uses the unknown name "objct" (known: object and oldObject) at line 1, column 1'],
    ['object.a == self.b', 'uses the unknown name "self" (known: object and oldObject) at line 1, column 13'],
    ['object.l.all(x, x > 1) && x', 'uses the unknown name "x"'],
    ['object.a.lowerAscii() == "a"', 'calls "lowerAscii", which is not a standard function or macro of CEL'],
    ['quantity(object.a) == 1', 'calls "quantity"'],
    ['object.l.all(x)', 'calls "all"'],
    ['google.protobuf.Duration{seconds: 1} == null', 'constructs a message'],
    [nested(4), 'has more than 3 nested loops'],
    ['('.repeat(33) + '1' + ')'.repeat(33), 'has more than 32 nested brackets'],
    [Array.from({ length: 300 }, () => '1').join('+'), 'has more than 500 operations'],
    ['', 'end of input'],
    ["'", 'at line 1'],
  ])('%s: it is told why, and where', (text, message) => {
    expect(() => parseExpression(text, ['object', 'oldObject'])).toThrow(ExpressionError);
    expect(() => parseExpression(text, ['object', 'oldObject'])).toThrow(message);
  });

  it('may be as deep and as long as it says', () => {
    expect(() => parseExpression(nested(3), ['object'])).not.toThrow();
    expect(() => parseExpression(`object${'.a'.repeat(400)} == 1`, ['object'])).not.toThrow();
  });
});
