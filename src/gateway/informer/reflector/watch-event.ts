import type { KubernetesObject, ResourceVersion } from '../../../core/index.ts';

/** An object as the server sent it, without the parts that the view's settings leave out. */
export interface SentObject {
  readonly object: KubernetesObject;
  /** The same as text, if it came as text: to serialize it again costs as much as to parse it. */
  readonly json?: string | undefined;
}

/** Removes the dropped fields of an object, from its parsed form and from its text alike. Idempotent. */
export interface Transform {
  /** In place. */
  readonly object: (object: KubernetesObject) => void;
  readonly text: (json: string) => string;
}

/**
 * The events of a reflector, in order. A list is framed by `init` and `init-done`; between them come the objects that
 * the server has (`listed`), and changes made during the list. All other events come from the watch. (kube-rs models it
 * the same way: `kube-runtime/src/watcher.rs`.)
 */
export type WatchEvent =
  | {
      readonly kind: 'init';
      /**
       * The server's data is older than ours (etcd restored): its versions cannot be compared with those in the cache,
       * and objects that the list does not name are gone.
       */
      readonly rewound: boolean;
    }
  | ({ readonly kind: 'listed' } & SentObject)
  /** The list is complete up to `version`. `list` is the number that `Reflector.relist` gave. */
  | { readonly kind: 'init-done'; readonly version: ResourceVersion; readonly list: number }
  /** ADDED or MODIFIED: which of the two follows from the cache. */
  | ({ readonly kind: 'changed' } & SentObject)
  /**
   * Read again, because the cache left it out for want of memory: it is written if the cache has a mark of this very
   * version. It says nothing about the version of the view.
   */
  | ({ readonly kind: 'back' } & SentObject)
  /** The object as it was last, with the version of its deletion. */
  | ({ readonly kind: 'deleted' } & SentObject)
  /**
   * The server no longer serves the resource (its CustomResourceDefinition is gone), so it has no objects. Takes the
   * place of a list, whose number it carries.
   */
  | { readonly kind: 'gone'; readonly list: number }
  /**
   * The server serves the kind in other versions only: its objects exist, but no events of them arrive until the next
   * list.
   */
  | { readonly kind: 'unserved' }
  /** Nothing happened up to `version`. */
  | { readonly kind: 'bookmark'; readonly version: ResourceVersion };
