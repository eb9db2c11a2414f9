/** Names that YAML 1.1 or 1.2 takes for a number, a boolean, a date or nothing where they stand without quotes. */
export const ODD_NAMES = [
  '2024',
  '0',
  '007',
  '1e5',
  '3240286e-210077',
  '0x10',
  '0o17',
  '2024-01-01',
  'on',
  'y',
  'no',
  'true',
  'null',
  'off',
] as const;

/** Texts that YAML takes for something else, too. Only some of the values may be such a text, and no namespace. */
export const ODD_TEXTS = ['~', '0.5', '1_000', '.inf', '12:30', 'NO', 'Yes'] as const;

/** Stands where the odd text is not allowed. */
export const PLAIN = 'plain';

/** Values of the charts that name something or are a user's own text, lists of such values, and maps to them. */
const TEXTS =
  /^(configMapName|existingSecret|key|LEVELHOOK_KEY_PREFIX|name|namespace|priorityClassName|signingSecret|storageClassName|value|\w+SecretName|secretName)$/;
const LISTS = /^(args|command|namespaces|pullSecrets|redisNamespaces|resourceNames)$/;
const MAPS = /^(annotations|labels|nodeSelector|podAnnotations|podLabels)$/;

/** What Kubernetes allows in the values that these fields hold. */
const ALLOWED: readonly (readonly [fields: RegExp, allowed: RegExp])[] = [
  [/^(args|command|value|annotations|podAnnotations|resourceNames)$/, /^/],
  [/^(key|labels|nodeSelector|podLabels)$/, /^[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$/],
  [/^(namespaces?|redisNamespaces|release)$/, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/],
  [/^tag$/, /^\w[-.\w]*$/],
  // Of a Service, too.
  [/^function$/, /^[a-z]([-a-z0-9]*[a-z0-9])?$/],
  [/^/, /^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/],
];

interface Values {
  readonly image?: { readonly digest?: string };
  readonly gateway?: object;
  readonly functions?: Readonly<Record<string, { readonly image: string }>>;
}

/** The name, or a plain one where the field may not have it. */
export function nameFor(field: string, name: string): string {
  const [, allowed] = ALLOWED.find(([fields]) => fields.test(field)) ?? [];
  return allowed?.test(name) ? name : PLAIN;
}

/**
 * Values of a chart with this name for each name in them, for the tags of the images, for the gateway's account and for
 * one of the functions: the next one for each of `ODD_NAMES`.
 */
export function withName(chart: string, values: Values, name: string): object {
  const renamed = textsReplaced(values, name) as Values;
  const { functions = {}, gateway = {}, image = {} } = renamed;
  const tag = nameFor('tag', name);
  if (chart === 'levelhook') return { ...renamed, image: image.digest === undefined ? { ...image, tag } : image };
  const all = Object.entries(functions);
  const turn = Math.max(0, (ODD_NAMES as readonly string[]).indexOf(name)) % Math.max(1, all.length);
  const named = all.map(([own, each], at) => [
    at === turn ? nameFor('function', name) : own,
    { ...each, image: each.image.replace(/[^:]*$/, tag) },
  ]);
  const serviceAccount = { namespace: nameFor('namespace', name), name: nameFor('name', name) };
  return { ...renamed, gateway: { ...gateway, serviceAccount }, functions: Object.fromEntries(named) as object };
}

function textsReplaced(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => textsReplaced(each, name));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([field, each]: [string, unknown]) => {
    const own = nameFor(field, name);
    // A list may not name the same twice.
    if (LISTS.test(field)) return [field, (each as string[]).map((text, at) => (at > 0 || text === '*' ? text : own))];
    if (MAPS.test(field)) return [field, Object.fromEntries(Object.keys(each as object).map((key) => [key, own]))];
    if (TEXTS.test(field) && typeof each === 'string') return [field, own];
    return [field, textsReplaced(each, name)];
  });
  return Object.fromEntries(entries) as unknown;
}
