import type { PlainProject } from './project-options.ts';

export function pythonController({ apiVersion, kind, name, own, plural, root }: PlainProject): string {
  const selection = own
    ? `    # The controller's own writes of the status wake no key.
    "for": {"apiVersion": "${apiVersion}", "kind": "${kind}", "predicate": {"changed": "generation"}},`
    : `    "for": {"apiVersion": "${apiVersion}", "kind": "${kind}", "labelSelector": {"matchLabels": {"${name}": "true"}}},`;
  const status = own
    ? `        {"apiVersion": "${apiVersion}", "kind": "${kind}", "subresource": "status", "verbs": ["update"]},\n`
    : '';
  const what = own ? 'the text' : 'the labels';
  const data = own
    ? `    text = found["spec"]["text"] * found["spec"].get("times", 1)
    keep_child(found, key["name"] + "-text", {"text": text}, api)
    tell(found, path, api)`
    : `    labels = found["metadata"].get("labels", {})
    # A key of a ConfigMap has no slash.
    data = {label.replace("/", "_"): text for label, text in labels.items()}
    keep_child(found, key["name"] + "-labels", data, api)`;
  const tell = own
    ? `

def tell(found, path, api):
    """Says in the status that all is well, unless it is said there."""
    generation = found["metadata"]["generation"]
    status = found.get("status", {})
    conditions = status.get("conditions", [])
    before = next((each for each in conditions if each["type"] == "Ready"), {})
    if before.get("observedGeneration") == generation:
        return
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "reason": "Written", "message": "", "observedGeneration": generation}
    ready["lastTransitionTime"] = before.get("lastTransitionTime", now)
    others = [each for each in conditions if each["type"] != "Ready"]
    api.write("PUT", path + "/status", {**found, "status": {**status, "conditions": [*others, ready]}})
`
    : '';
  return `"""Keeps a ConfigMap, NAME-${own ? 'text' : 'labels'}, with ${what} of each ${kind}${own ? ', and says so in the status' : ` that has the label \`${name}: "true"\``}."""
${own ? '\nfrom datetime import datetime, timezone\n' : ''}
from levelhook import is_controlled_by, serve

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
DESCRIPTION = {
    "name": "${name}",
${selection}
    "owns": [CONFIG_MAP],
    # \`levelhook manifest\` prints these rights.
    "writes": [
        {**CONFIG_MAP, "verbs": ["create", "update"]},
${status}    ],
}


def reconcile(key, api):
    """It may run at any time, again and again, and decides by the state of the objects alone."""
    path = f"${root}/namespaces/{key['namespace']}/${plural}/{key['name']}"
    found = api.get(path)
    # The garbage collector deletes the ConfigMap with its ${kind}.
    if not found or "deletionTimestamp" in found["metadata"]:
        return
${data}


def keep_child(found, name, data, api):
    """Writes the ConfigMap with this name, of which \`found\` is the owner."""
    path = f"/api/v1/namespaces/{found['metadata']['namespace']}/configmaps"
    child = api.get(f"{path}/{name}")
    if child and not is_controlled_by(child, found):
        raise RuntimeError(f"the ConfigMap {name} belongs to another owner")
    if not child:
        owner = {field: found["metadata"][field] for field in ("name", "uid")}
        owner |= {"apiVersion": "${apiVersion}", "kind": "${kind}", "controller": True, "blockOwnerDeletion": True}
        api.write("POST", path, {**CONFIG_MAP, "metadata": {"name": name, "ownerReferences": [owner]}, "data": data})
    elif child.get("data", {}) != data:
        api.write("PUT", f"{path}/{name}", {**child, "data": data})
${tell}

if __name__ == "__main__":
    serve(DESCRIPTION, reconcile)
`;
}

export function pythonTest({ apiVersion, kind, name, own, plural, root }: PlainProject): string {
  const child = own ? 'hello-text' : 'hello-labels';
  const [more, spec, data] = own
    ? [`"generation": 1`, `, "spec": {"text": "Hello. "}`, `{"text": "Hello. "}`]
    : [`"labels": {"${name}": "true"}`, '', `{"${name}": "true"}`];
  return `import unittest

from function import reconcile

PATH = "${root}/namespaces/default/${plural}/hello"
CHILD = "/api/v1/namespaces/default/configmaps/${child}"
METADATA = {"namespace": "default", "name": "hello", "uid": "1", ${more}}


class Objects:
    """An apiserver in memory, as far as the controller needs one."""

    def __init__(self, objects):
        self.objects, self.writes = objects, []

    def get(self, path):
        return self.objects.get(path)

    def write(self, method, path, body, content_type="application/json"):
        self.writes.append(method)
        place = path if method != "POST" else f"{path}/{body['metadata']['name']}"
        self.objects[place.removesuffix("/status")] = body


def run(api):
    reconcile({"namespace": "default", "name": "hello"}, api)
    writes, api.writes = api.writes, []
    return writes


class Test(unittest.TestCase):
    def setUp(self):
        self.found = {"apiVersion": "${apiVersion}", "kind": "${kind}", "metadata": METADATA${spec}}

    def test_makes_the_config_map_and_then_leaves_it_alone(self):
        api = Objects({PATH: self.found})
        self.assertEqual(run(api)[0], "POST")
        self.assertEqual(api.objects[CHILD]["data"], ${data})
        self.assertEqual(run(api), [])

    def test_does_not_touch_the_config_map_of_another_owner(self):
        api = Objects({PATH: self.found, CHILD: {"metadata": {"name": "${child}"}, "data": {"mine": "yes"}}})
        with self.assertRaises(RuntimeError):
            run(api)
        self.assertEqual(api.writes, [])


if __name__ == "__main__":
    unittest.main()
`;
}

export function pythonClusterTest({ name, object, own, plural, root }: PlainProject): string {
  const [child, data] = own ? ['hello-text', `{"text": "Hello. "}`] : ['hello-labels', `{"${name}": "true"}`];
  return `"""\`npm run test:cluster\` starts an apiserver, the gateway and the controller, and then runs this test."""

import os
import time
import unittest

from levelhook import connector

HELLO = ${object}


class Test(unittest.TestCase):
    def test_makes_the_config_map(self):
        api = connector(os.environ)(time.monotonic() + 60)
        api.write("POST", "${root}/namespaces/default/${plural}", HELLO)
        while not (child := api.get("/api/v1/namespaces/default/configmaps/${child}")):
            time.sleep(0.1)
        self.assertEqual(child["data"], ${data})


if __name__ == "__main__":
    unittest.main()
`;
}
