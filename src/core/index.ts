export { type Clock, systemClock } from './clock.ts';
export { messageOf, UserError } from './errors.ts';
export { controllerOf, type KubernetesObject, keyOf, type ObjectMeta, type OwnerReference } from './kubernetes-object.ts';
export { type LogFields, type Logger, silentLogger } from './logger.ts';
export { formatObjectKey, type ObjectKey, parseObjectKey } from './object-key.ts';
export { formatKind, type GroupVersionKind, groupOf, type Resource, resource, resourcePath } from './resource.ts';
export {
  compareResourceVersions,
  isResourceVersion,
  newestResourceVersion,
  type ResourceVersion,
} from './resource-version.ts';
