"""A levelhook function in Python.

For every ConfigMap labelled `count: "words"` it keeps a second one, NAME-words, with the number of words in it.
`levelhook.py` has the rest; the README beside this file says how to run it.
"""

from levelhook import is_controlled_by, serve

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
DESCRIPTION = {
    "name": "word-count",
    "for": CONFIG_MAP,
    "owns": [CONFIG_MAP],
    "writes": [{**CONFIG_MAP, "verbs": ["create", "patch"]}],
    # Two keys at a time, in one trigger.
    "timeoutSeconds": 10,
    "concurrency": 2,
    "maxBatch": 2,
}


def reconcile(key, api):
    """Brings the world one step nearer to what the object asks for. It may run at any time, again and again."""
    path = f"/api/v1/namespaces/{key['namespace']}/configmaps"
    source = api.get(f"{path}/{key['name']}")
    if not source or "deletionTimestamp" in source["metadata"]:
        return
    if source["metadata"].get("labels", {}).get("count") != "words":
        return
    words = str(sum(len(text.split()) for text in source.get("data", {}).values()))
    name = key["name"] + "-words"
    found = api.get(f"{path}/{name}")
    if not found:
        owner = {"name": key["name"], "uid": source["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
        metadata = {"name": name, "ownerReferences": [{**CONFIG_MAP, **owner}]}
        api.write("POST", path, {**CONFIG_MAP, "metadata": metadata, "data": {"words": words}})
    elif not is_controlled_by(found, source):
        raise RuntimeError(f"the ConfigMap {name} is there already, and belongs to another owner or to none")
    elif found.get("data", {}).get("words") != words:
        patch = {"metadata": {"uid": found["metadata"]["uid"]}, "data": {"words": words}}
        api.write("PATCH", f"{path}/{name}", patch, "application/merge-patch+json")


if __name__ == "__main__":
    serve(DESCRIPTION, reconcile)
