/** The README's commands for a ReconcileFunction, letter by letter. */
export const IN_A_CLUSTER = `kubectl apply --server-side -f infra/crds/levelhook.dev_reconcilefunctions.yaml
npm run -s levelhook manifest -- http://127.0.0.1:8080 --namespace shop --service greeting:80 > greeting.yaml
kubectl apply -f greeting.yaml
kubectl -n shop get reconcilefunctions
`;
