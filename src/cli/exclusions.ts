import { isNamespace, shown, UserError } from '../core/index.ts';

/**
 * The label of the objects that run a function. Its value is the function's name, and it counts in the function's
 * namespace.
 */
export const FUNCTION_LABEL = 'levelhook.dev/function';

export interface MatchCondition {
  readonly name: string;
  readonly expression: string;
}

const DOMAIN = 'levelhook.dev';

/**
 * Exempts writes from all webhooks that are needed to repair a dead webhook with `failurePolicy: Fail`: writes of its
 * own function, of the gateway, of leader election, and of the control plane. The apiserver itself exempts the webhook
 * configurations.
 *
 * Outside of the function's own namespace no user may opt out of a review by this. The namespace of a write, its group
 * and its resource are facts that a user cannot choose for another object, and the apiserver sets the label
 * `kubernetes.io/metadata.name` by itself. A label of an object is its author's choice, so it counts in the function's
 * own namespace only. An `objectSelector` would count in each namespace.
 *
 * Except for `status`, writes of subresources have bodies without labels (`Scale`, `Binding`, `TokenRequest`). In the
 * function's namespace they are not reviewed: a scaler must be able to start a function that has no instance.
 *
 * The expressions work in every Kubernetes with match conditions. `request` lacks empty fields, and a CEL error would
 * refuse the write.
 */
export function excludingConditions(namespace: string, name: string): MatchCondition[] {
  const object = "(request.operation == 'DELETE' ? [oldObject] : [object])";
  const labelled = [
    'o != null',
    'has(o.metadata)',
    'has(o.metadata.labels)',
    `'${FUNCTION_LABEL}' in o.metadata.labels`,
    `o.metadata.labels['${FUNCTION_LABEL}'] == '${name}'`,
  ].join(' && ');
  const isSubresource = "has(request.subResource) && !(request.subResource in ['', 'status'])";
  return [
    {
      name: `${DOMAIN}/no-levelhook`,
      expression:
        `request.resource.group != '${DOMAIN}' && !(request.resource.resource == 'customresourcedefinitions' && ` +
        `has(request.name) && request.name.endsWith('.${DOMAIN}'))`,
    },
    {
      name: `${DOMAIN}/no-leases`,
      expression: "!(request.resource.group == 'coordination.k8s.io' && request.resource.resource == 'leases')",
    },
    {
      name: `${DOMAIN}/not-itself`,
      expression:
        `!(has(request.namespace) && request.namespace == '${namespace}' && ` +
        `((${isSubresource}) || ${object}.exists(o, ${labelled})))`,
    },
  ];
}

/**
 * The same for whole namespaces: their objects, and themselves.
 * @param named by the user: the namespace of Redis, for instance, without which no gateway starts
 * @throws UserError for an invalid namespace
 */
export function excludedNamespaces(gatewayNamespace: string, named: readonly string[] = []): string[] {
  for (const each of named) {
    if (!isNamespace(each)) throw new UserError(`--exclude-namespace ${shown(each)} is not the name of a namespace.`);
  }
  return [...new Set(['kube-system', gatewayNamespace, ...named])];
}
