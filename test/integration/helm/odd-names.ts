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
] as const;

/** Values of the charts that name something or are a user's own text, lists of such values, and maps to them. */
const TEXTS =
  /^(configMapName|existingSecret|key|LEVELHOOK_KEY_PREFIX|name|namespace|priorityClassName|signingSecret|storageClassName|value|\w+SecretName|secretName)$/;
const LISTS = /^(args|command|namespaces|pullSecrets|redisNamespaces|resourceNames)$/;
const MAPS = /^(annotations|labels|nodeSelector|podAnnotations|podLabels)$/;

interface Values {
  readonly image?: { readonly digest?: string };
  readonly gateway?: object;
  readonly functions?: Readonly<Record<string, { readonly image: string }>>;
}

/**
 * Values of a chart with this name for each name in them, for the tags of the images and for the gateway's account. A
 * function's name begins with a letter, so another name is given to no function.
 */
export function withName(chart: string, values: Values, name: string): object {
  const renamed = textsReplaced(values, name) as Values;
  const { functions = {}, gateway = {}, image = {} } = renamed;
  if (chart === 'levelhook') return { ...renamed, image: image.digest === undefined ? { ...image, tag: name } : image };
  const named = Object.entries(functions).map(([own, each], at) => {
    const isName = at === 0 && /^[a-z]/.test(name);
    return [isName ? name : own, { ...each, image: each.image.replace(/[^:]*$/, name) }] as const;
  });
  const serviceAccount = { namespace: name, name };
  return { ...renamed, gateway: { ...gateway, serviceAccount }, functions: Object.fromEntries(named) };
}

function textsReplaced(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => textsReplaced(each, name));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([field, each]: [string, unknown]) => {
    // A list may not name the same twice.
    if (LISTS.test(field)) return [field, (each as string[]).map((text, at) => (at > 0 || text === '*' ? text : name))];
    if (MAPS.test(field)) return [field, Object.fromEntries(Object.keys(each as object).map((key) => [key, name]))];
    if (TEXTS.test(field) && typeof each === 'string') return [field, name];
    return [field, textsReplaced(each, name)];
  });
  return Object.fromEntries(entries) as unknown;
}
