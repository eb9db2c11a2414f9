import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import type { KubernetesObject } from '../../src/core/index.ts';
import type { ControlPlane } from '../../src/testing/index.ts';

const run = promisify(execFile);

/** The operations of one transaction, at most: etcd's `--max-txn-ops`. */
const MOST_IN_TRANSACTION = 128;
const AT_A_TIME = 4;

/** An object to store, without the fields that the apiserver gives to a new object. */
export interface ObjectToStore extends Pick<KubernetesObject, 'apiVersion' | 'kind'> {
  readonly metadata: { readonly namespace: string; readonly name: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

/**
 * Stores new objects in the etcd of a control plane, as JSON, which an apiserver can read for any kind. Nothing is
 * checked. 100,000 objects take seconds, and minutes through the apiserver.
 * @param folder where the apiserver stores the kind: `configmaps`, `example.com/widgets`.
 */
export async function storeInEtcd(
  plane: ControlPlane,
  folder: string,
  objects: readonly ObjectToStore[],
): Promise<void> {
  const url = `${await etcdUrl(plane)}/v3/kv/txn`;
  const creationTimestamp = new Date().toISOString().replace(/\.\d+/, '');
  const put = ({ metadata, ...rest }: ObjectToStore): object => {
    const value = { ...rest, metadata: { ...metadata, uid: randomUUID(), creationTimestamp } };
    const key = `/registry/${folder}/${metadata.namespace}/${metadata.name}`;
    return { requestPut: { key: base64(key), value: base64(JSON.stringify(value)) } };
  };
  let from = 0;
  const store = async (): Promise<void> => {
    while (from < objects.length) {
      const part = objects.slice(from, (from += MOST_IN_TRANSACTION));
      const answer = await fetch(url, { method: 'POST', body: JSON.stringify({ success: part.map(put) }) });
      if (!answer.ok) throw new Error(await answer.text());
      await answer.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, store));
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

async function etcdUrl(plane: ControlPlane): Promise<string> {
  const { stdout } = await run('ps', ['-ww', '-o', 'args=', '-p', String(plane.pid('etcd'))]);
  const [, url] = /--listen-client-urls=(\S+)/.exec(stdout) ?? [];
  if (url === undefined) throw new Error(`no URL of etcd in ${stdout}`);
  return url;
}
