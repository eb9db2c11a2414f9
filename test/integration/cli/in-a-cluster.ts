/**
 * The commands of infra/docs/in-a-cluster.md for a ReconcileFunction, letter by letter: the rights of the gateway, then
 * the function.
 */
export const IN_A_CLUSTER: readonly string[] = [
  `kubectl apply --server-side -f infra/crds/levelhook.dev_reconcilefunctions.yaml
kubectl apply -f infra/rbac/gateway.yaml
kubectl create clusterrole levelhook-gateway-reads-greeting --verb=get,list,watch --resource=configmaps
kubectl create clusterrolebinding levelhook-gateway-reads-greeting --clusterrole=levelhook-gateway-reads-greeting --serviceaccount=levelhook:gateway
`,
  `kubectl create namespace shop
kubectl -n shop create secret generic greeting-signing --from-literal=secrets="$LEVELHOOK_SIGNING_SECRETS"
kubectl apply -f infra/rbac/signing-secret.yaml
npm run -s levelhook manifest -- http://127.0.0.1:8080 --namespace shop --service greeting:80 > greeting.yaml
kubectl apply -f greeting.yaml
kubectl -n shop get reconcilefunctions
`,
];
