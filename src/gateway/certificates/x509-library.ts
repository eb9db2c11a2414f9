import type * as X509Module from '@peculiar/x509';

/**
 * Loads `@peculiar/x509` when it is first needed. It registers its classes with tsyringe, which refuses to load before
 * `reflect-metadata` has; neither is worth the start of a program that makes no certificate.
 */
export async function loadX509(): Promise<typeof X509Module> {
  await import('reflect-metadata');
  return import('@peculiar/x509');
}
