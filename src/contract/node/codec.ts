import type { KubernetesObject } from '../../core/index.ts';

/**
 * How an object is kept in Redis, format 1: its JSON as the apiserver sent it. JSON of an object begins with `{`, so
 * the first byte tells the format, and later formats (compressed, encrypted) begin with another byte.
 */
export function encodeObject(json: string): string {
  return json;
}

/** @throws TypeError for a format that this version does not know. */
export function decodeObject(text: string): KubernetesObject {
  if (!text.startsWith('{')) {
    throw new TypeError(`an object in the cache has the unknown format "${text.slice(0, 1)}": upgrade this reader`);
  }
  return JSON.parse(text) as KubernetesObject;
}
