import type { Random } from './seeded-random.ts';

/** Names that JavaScript objects inherit, that it moves to the front of an object, and that need escapes somewhere. */
const NAMES = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'toJSON',
  'then',
  'length',
  '',
  '0',
  '10',
  '2',
  '-1',
  '1.5',
  '4294967295',
  '9007199254740993',
  'null',
  'metadata',
  'spec',
  'a.b',
  'a/b',
  'a~1b~0',
  'a b',
  '"quoted"',
  'back\\slash',
  'line\nbreak',
  '<b>&',
  'größe',
  '\u2028',
  '\ue000😀',
  'delete\u007f',
  '<<',
];

/** Texts that look like other values, or need escapes. None has a character that an object's annotation refuses. */
const TEXTS = [
  '',
  ' ',
  'null',
  'true',
  '0',
  '1e3',
  '9007199254740993',
  ', 9223372036854775807 :"9007199254740993"\\',
  '{"a":9007199254740993}',
  '__proto__',
  '2025-02-30T00:00:00Z',
  'tab\tand\r\nline',
  '<b>&\u2028\u2029',
  'größe \ue000😀',
  '\u0001\u007f',
  'next\u0085line \ufeffmark',
];

/** Names for labels, annotations and keys of a ConfigMap. */
const PLAIN_NAMES = ['constructor', 'toString', 'hasOwnProperty', 'toJSON', '0', '10', '2', '1.5', 'a.b_c-d', 'null'];

/** The first one is empty. */
const SUFFIXES = ' n u m k M G T P E Ki Mi Gi Ti Pi Ei e0 e3 E3 e9 E+2 e-3 E-9'.split(' ');
const MAX_INT64 = 2n ** 63n - 1n;
const EDGES = [0n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, MAX_INT64 - 1n, MAX_INT64];

const oneOf = <T>(random: Random, all: readonly T[]): T => all[random.below(all.length)] as T;

/** An integer of 64 bits, each number of bits as often as another. */
export function randomInteger(random: Random): string {
  const sign = random.below(2) === 0 ? 1n : -1n;
  if (random.below(4) === 0) return String(sign * oneOf(random, EDGES));
  let bits = 0n;
  for (let at = 0; at < 64; at += 16) bits = (bits << 16n) | BigInt(random.below(65_536));
  return String(sign * (bits >> BigInt(1 + random.below(64))));
}

/** Above zero. */
function randomSeconds(random: Random): string {
  const seconds = randomInteger(random).replace('-', '');
  return seconds === '0' ? '1' : seconds;
}

/** As JavaScript and the apiserver both write it. */
const float = (random: Random): string => String((random.between(-1, 1) || 0.5) * 10 ** (random.below(50) - 25));

/** A quantity from zero, in any of the notations that the apiserver reads. */
export function randomQuantity(random: Random): string {
  const digits = String(random.below(10 ** random.below(10)));
  const amount = oneOf(random, [digits, `+${digits}`, `0${digits}`, `${digits}.`, `${digits}.50`, `.${digits}`]);
  return amount + oneOf(random, SUFFIXES);
}

export const randomText = (random: Random): string => oneOf(random, TEXTS);

/** JSON of annotations, or of the data of a ConfigMap. */
export function randomTexts(random: Random): string {
  const from = random.below(TEXTS.length);
  return JSON.stringify(Object.fromEntries(PLAIN_NAMES.map((name, at) => [name, TEXTS[(from + at) % TEXTS.length]])));
}

/**
 * JSON of the spec of a pod that the apiserver takes, also in a ReplicaSet or a Deployment. In a pod the apiserver sets
 * the requests that are limits, the node and further fields.
 */
export function randomPodSpec(random: Random): string {
  const seconds = randomSeconds(random);
  const text = (): string => JSON.stringify(randomText(random));
  const quantity = (): string => JSON.stringify(randomQuantity(random));
  const id = (): number => random.below(2 ** 31);
  const container = `{
    "name":"main","image":"pause","args":[${text()},""],
    "env":[{"name":"constructor","value":${text()}},{"name":"__proto__","value":${text()}},{"name":"0"}],
    "resources":{"limits":{"cpu":${quantity()},"memory":${quantity()}},"requests":{"ephemeral-storage":${quantity()}}},
    "lifecycle":{"preStop":{"sleep":{"seconds":${seconds}}}},
    "livenessProbe":{"exec":{"command":["true"]},"terminationGracePeriodSeconds":${randomSeconds(random)}},
    "securityContext":{"runAsUser":${id()},"capabilities":{"add":[]}}
  }`;
  const token = `{"path":"token","expirationSeconds":${600 + random.below(2 ** 32 - 600)}}`;
  const sysctls = `[{"name":"net.core.somaxconn","value":${text()}},{"name":"kernel.msgmax","value":"9007199254740993"}]`;
  return `{
    "containers":[${container}],
    "tolerations":[{"operator":"Exists","effect":"NoExecute","tolerationSeconds":${randomInteger(random)}}],
    "terminationGracePeriodSeconds":${seconds},
    "securityContext":{"runAsUser":${id()},"fsGroup":${id()},"supplementalGroups":[0,${id()}],"sysctls":${sysctls}},
    "volumes":[
      {"name":"none","emptyDir":{}},
      {"name":"some","emptyDir":{"sizeLimit":${quantity()}}},
      {"name":"token","projected":{"sources":[{"serviceAccountToken":${token}}]}}
    ],
    "dnsConfig":{"nameservers":[],"options":[{"name":"ndots","value":${text()}},{"name":"debug","value":null}]},
    "serviceAccountName":"default","automountServiceAccountToken":false,
    "nodeSelector":{},"hostAliases":null,"affinity":{}
  }`;
}

/** JSON of a template of such pods. */
export function randomPodTemplate(random: Random, labels: Readonly<Record<string, string>>): string {
  const all = JSON.stringify({
    ...labels,
    constructor: '',
    toString: 'null',
    10: '0',
    2: '1e3',
  });
  return `{"metadata":{"labels":${all},"annotations":${randomTexts(random)}},"spec":${randomPodSpec(random)}}`;
}

/** JSON of an object with each of the names and texts above. */
export const everyName = JSON.stringify(Object.fromEntries(NAMES.map((name, at) => [name, TEXTS[at % TEXTS.length]])));

/** JSON of an object with values of all types and names of all kinds, in lists and objects of some levels. */
export function randomObject(random: Random): string {
  const object = (levels: number): string => {
    const from = random.below(NAMES.length);
    const fields = Array.from({ length: 1 + random.below(6) }, (_, at) => {
      return `${JSON.stringify(NAMES[(from + at) % NAMES.length])}:${value(levels)}`;
    });
    return `{${fields.join()}}`;
  };
  const value = (levels: number): string => {
    const kind = random.below(levels > 0 ? 14 : 9);
    if (kind < 3) return randomInteger(random);
    if (kind === 3) return float(random);
    if (kind === 4) return JSON.stringify(randomQuantity(random));
    if (kind < 7) return JSON.stringify(randomText(random));
    if (kind < 9) return oneOf(random, ['null', 'true', 'false', '{}', '[]']);
    if (kind < 12) return object(levels - 1);
    return `[${Array.from({ length: random.below(4) }, () => value(levels - 1)).join()}]`;
  };
  return object(3);
}
