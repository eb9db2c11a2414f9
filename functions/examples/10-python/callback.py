"""Tells how a run ended that went on after its 202, with Python's standard library alone.

    echo '{"runToken": {...}, "result": {"status": "done"}}' | LEVELHOOK_SIGNING_SECRETS=whsec_... python3 callback.py

`runToken` is what the trigger said: the callback's `url` and `token`, `controller`, and of the request `namespace`, `name`
and `run`. Prints the gateway's answer. Exit 0: taken; 3: the run is over, and nothing more may be written for it.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

GIVE_UP_SECONDS = 300
SENT = ("controller", "token", "namespace", "name", "run")


def signed(secret, body):
    """Standard Webhooks, as triggers are: over the body as it is sent, at this moment."""
    key = base64.b64decode(secret[len("whsec_") :], validate=True)
    message_id, timestamp = str(uuid.uuid4()), str(int(time.time()))
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": signature}


def post(url, secret, body):
    """Status, whether it is the gateway's own and not a proxy's, and the text; None when there was no answer."""
    headers = {"content-type": "application/json", **signed(secret, body)}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers, method="POST"), timeout=30) as answer:
            return answer.status, "levelhook-contract" in answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, "levelhook-contract" in error.headers, error.read().decode("utf-8", "replace")
    except OSError:
        return None, False, "no answer"


def main():
    given = json.load(sys.stdin)
    run_token = given["runToken"]
    secret = os.environ["LEVELHOOK_SIGNING_SECRETS"].replace(",", " ").split()[0]
    named = {field: run_token[field] for field in SENT if field in run_token}
    body = json.dumps({"version": "v1", **named, "result": given["result"]}).encode()
    until, wait = time.time() + GIVE_UP_SECONDS, 0.25
    while True:
        status, ours, text = post(run_token["url"], secret, body)
        if ours and status < 429:
            print(text)
            sys.exit({200: 0, 409: 3, 410: 3}.get(status, 1))
        # The gateway is away, or not ready: twice does no harm.
        if time.time() + wait > until:
            sys.exit(f"the outcome was not taken: {status} {text}")
        time.sleep(wait)
        wait = min(wait * 2, 15)


if __name__ == "__main__":
    main()
