"""What a levelhook function needs in Python, with its standard library alone: copy this file beside your controller.

    from levelhook import serve

    DESCRIPTION = {"name": "words", "for": {"apiVersion": "v1", "kind": "ConfigMap"}}

    def reconcile(key, api):
        found = api.get(f"/api/v1/namespaces/{key['namespace']}/configmaps/{key['name']}")
        ...

    serve(DESCRIPTION, reconcile)

`serve` listens on HOST and PORT, verifies the signatures, runs `reconcile(key, api)` for each key of a trigger, and
answers with the results. Written from infra/contract, which says what a description may have.
"""

import base64
import hashlib
import hmac
import json
import os
import queue
import signal
import ssl
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = "v1"
LINES = "application/x-ndjson"
# A batch is answered so long before the deadline, or a tenth of the time before it if that is less.
ANSWER_SECONDS = 0.5
TOLERANCE_SECONDS = 300
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_SEEN = 100_000


class Refused(Exception):
    """A request that is answered with an error status, before anything is done."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


class ApiError(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Unanswered(Exception):
    """A write that may have been done: its answer never came, or does not tell."""


# --- what is signed ---------------------------------------------------------------------------------------------------


def decode_secret(secret):
    """The bytes of `whsec_<base64>`. Never tells the secret."""
    try:
        if not secret.startswith("whsec_"):
            raise ValueError
        key = base64.b64decode(secret[len("whsec_") :], validate=True)
    except ValueError:
        sys.exit('LEVELHOOK_SIGNING_SECRETS: a signing secret is "whsec_" followed by base64')
    if not 24 <= len(key) <= 64:
        sys.exit("LEVELHOOK_SIGNING_SECRETS: a signing secret holds 24 to 64 bytes")
    return key


def verify(keys, headers, body):
    """Standard Webhooks: one signature that matches one of our secrets is enough, since secrets are rotated."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not message_id or not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
        raise Refused(401, "the signature headers are missing")
    if abs(int(time.time()) - int(timestamp)) > TOLERANCE_SECONDS:
        raise Refused(401, "the message is too old, or comes from the future")
    signed = f"{message_id}.{timestamp}.".encode("latin-1") + body
    right = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()) for key in keys]
    for candidate in headers.get("webhook-signature", "").split(" "):
        version, _, signature = candidate.partition(",")
        if version == "v1" and any(hmac.compare_digest(each, signature.encode("latin-1")) for each in right):
            return
    raise Refused(401, "no signature matches")


# --- the apiserver ----------------------------------------------------------------------------------------------------


class Api:
    """Reads and writes of one run, until its deadline by time.monotonic(). Remembers every write that was acknowledged."""

    def __init__(self, server, context, token_file, deadline):
        self.server, self.context, self.token_file, self.deadline = server, context, token_file, deadline
        self.writes = []

    def get(self, path):
        try:
            return self._send("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def write(self, method, path, body, content_type="application/json"):
        """POST creates, PUT replaces, PATCH changes an object."""
        written = self._send(method, path, body, content_type)
        meta = written["metadata"]
        names = {name: meta[name] for name in ("namespace", "name", "uid", "resourceVersion") if name in meta}
        self.writes.append({"apiVersion": written["apiVersion"], "kind": written["kind"], **names})

    def delete(self, path, found):
        """Deletes this very object: not another one of its name."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": found["metadata"]["uid"]}}
        self._send("DELETE", path, options, "application/json")
        names = {name: found["metadata"][name] for name in ("namespace", "name", "uid") if name in found["metadata"]}
        self.writes.append({"apiVersion": found["apiVersion"], "kind": found["kind"], **names, "deleted": True})

    def _send(self, method, path, body=None, content_type=None):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the run is over: nothing more may be sent")
        with open(self.token_file, encoding="ascii") as file:  # rotated, so read each time
            headers = {"accept": "application/json", "authorization": "Bearer " + file.read().strip()}
        data = None
        if method != "GET":
            headers["content-type"] = content_type
            data = json.dumps(body).encode()
            # The apiserver gives the write up at our deadline too.
            path += f"{'&' if '?' in path else '?'}timeout={max(1, int(left * 1000))}ms"
        request = urllib.request.Request(self.server + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=left, context=self.context) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")[:300]
            if method != "GET" and error.code >= 500:
                raise Unanswered(f"{method} {path}: {error.code} {text}") from error
            raise ApiError(error.code, f"{method} {path}: {error.code} {text}") from error
        except (OSError, ValueError) as error:
            if method == "GET":
                raise
            raise Unanswered(f"{method} {path}: {error}") from error


# --- runs ------------------------------------------------------------------------------------------------------------


def is_controlled_by(found, owner):
    """Whether a controller reference names the owner: an earlier object of the same name had another UID."""
    references = found["metadata"].get("ownerReferences", [])
    return any(each.get("controller") and each["uid"] == owner["metadata"]["uid"] for each in references)


def run(reconcile, request, api):
    """One result for one request."""
    try:
        result = reconcile(request, api) or {}
        return {"status": "done", **result, "writes": api.writes}
    except Unanswered as error:
        return {"status": "unknown", "message": str(error)}
    except Exception as error:  # whatever it was, the gateway is to try again
        print(json.dumps({"level": "error", "msg": "reconcile failed", "error": str(error)}), flush=True)
        # Shown on the page of the run, beside the error. The gateway keeps the beginning, and Python names the cause last.
        stack = traceback.format_exc()[-800:]
        return {"status": "error", "message": str(error), "stack": stack, "writes": api.writes}


class SeenTriggers:
    """The ids of triggers until their deadlines: a copy must not run beside the first one. In this process only."""

    def __init__(self):
        self.until, self.lock = {}, threading.Lock()

    def add(self, message_id, seconds):
        now = time.monotonic()
        with self.lock:
            if self.until.get(message_id, 0) > now:
                raise Refused(409, "the trigger was received before")
            if len(self.until) >= MAX_SEEN:
                self.until = {known: until for known, until in self.until.items() if until > now}
            if len(self.until) >= MAX_SEEN:
                raise Refused(503, "too many triggers: no room to remember another id")
            self.until[message_id] = now + min(seconds, 2 * TOLERANCE_SECONDS)


def results_of(reconcile, requests, connect, deadline):
    """Runs the requests at the same time. Yields the place and the result of each as it ends, before the deadline."""
    ended = queue.SimpleQueue()
    if len(requests) > 1:
        deadline -= min(ANSWER_SECONDS, (deadline - time.monotonic()) / 10)
    for place, request in enumerate(requests):
        work = lambda place=place, request=request: ended.put((place, run(reconcile, request, connect(deadline))))
        threading.Thread(target=work, daemon=True).start()
    left = set(range(len(requests)))
    while left:
        try:
            place, result = ended.get(timeout=max(0, deadline - time.monotonic()))
        except queue.Empty:
            break
        left.remove(place)
        yield place, result
    for place in left:
        yield place, {"status": "unknown", "message": "the run did not end before the deadline"}


def handle_trigger(name, reconcile, body, message_id, seen, connect):
    """The requests of a trigger that is to be run, and its results as they come."""
    trigger = json.loads(body)
    if trigger.get("version") != VERSION:
        raise Refused(400, f"the trigger speaks contract {trigger.get('version')}, this function {VERSION}")
    if trigger.get("controller") != name:
        raise Refused(400, f"the trigger is for {trigger.get('controller')}, and this is {name}")
    # The earlier of the two: this machine's clock and the gateway's may differ.
    absolute = datetime.fromisoformat(trigger["deadline"].replace("Z", "+00:00")).timestamp()
    seconds = absolute - time.time()
    if seconds <= 0:
        raise Refused(409, "the deadline of the trigger has passed")
    seen.add(message_id, seconds)
    # From here on a duration: nothing sets this clock.
    deadline = time.monotonic() + min(seconds, trigger["remainingSeconds"])
    return trigger["requests"], results_of(reconcile, trigger["requests"], connect, deadline)


# --- HTTP -------------------------------------------------------------------------------------------------------------


def handler(description, reconcile, keys, connect):
    seen = SeenTriggers()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # The gateway closes idle connections, after a second. A function must not close them sooner than after two.
        timeout = 75

        def do_GET(self):
            self.answer(lambda body: self.send(200, {"version": VERSION, **description}))

        def do_POST(self):
            self.answer(self.trigger)

        def trigger(self, body):
            message_id = self.headers["webhook-id"]
            requests, results = handle_trigger(description["name"], reconcile, body, message_id, seen, connect)
            if len(requests) > 1 and LINES in self.headers.get("accept", ""):
                self.send_lines({"run": requests[place]["run"], "result": result} for place, result in results)
            else:
                # In the order of the requests.
                by_place = dict(results)
                whole = [by_place[place] for place in range(len(requests))]
                self.send(200, {"version": VERSION, "results": whole})

        def answer(self, act):
            try:
                length = int(self.headers.get("content-length", 0))
                if length > MAX_BODY_BYTES:
                    self.close_connection = True
                    raise Refused(413, "the body is too large")
                body = self.rfile.read(length)
                # Before anything parses it.
                verify(keys, self.headers, body)
                act(body)
            except Refused as refused:
                self.send(refused.status, {"error": str(refused)})
            except ConnectionError:
                self.close_connection = True

        def send(self, status, value):
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.send_header("levelhook-contract", VERSION)
            self.end_headers()
            self.wfile.write(data)

        def send_lines(self, lines):
            """Each in a chunk of its own (RFC 9112, 7.1), as soon as it is there."""
            self.send_response(200)
            self.send_header("content-type", LINES)
            self.send_header("transfer-encoding", "chunked")
            self.send_header("levelhook-contract", VERSION)
            self.end_headers()
            for line in lines:
                data = json.dumps(line).encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_):
            pass  # one line for each request says nothing: the gateway logs its triggers

    return Handler


def connector(environment):
    """How to reach the apiserver: as the environment says, or as a pod's service account."""
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    server = environment.get("KUBE_SERVER") or (f"https://{host}:{port}" if host else sys.exit("KUBE_SERVER is not set"))
    context = ssl.create_default_context(cafile=environment.get("KUBE_CA_FILE", f"{account}/ca.crt"))
    token_file = environment.get("KUBE_TOKEN_FILE", f"{account}/token")
    return lambda deadline: Api(server.rstrip("/"), context, token_file, deadline)


def serve(description, reconcile):
    """Answers the gateway until the process ends. The README says which environment variables it reads.

    `description` is the answer to a GET, without its version. `reconcile(key, api)` brings the world one step nearer to
    what the object asks for; it may run at any time, again and again, and for several keys at once. It returns nothing,
    or {"requeueAfterSeconds": 60}. An exception is an error, after which the gateway tries again.
    """
    environment = os.environ
    secrets = environment.get("LEVELHOOK_SIGNING_SECRETS", "").replace(",", " ").split()
    if not secrets:
        sys.exit("LEVELHOOK_SIGNING_SECRETS is not set: a function accepts signed triggers only")
    keys = [decode_secret(secret) for secret in secrets]
    address = (environment.get("HOST", "127.0.0.1"), int(environment.get("PORT", "8080")))
    server = ThreadingHTTPServer(address, handler(description, reconcile, keys, connector(environment)))
    print(json.dumps({"msg": "listening", "url": "http://%s:%d" % server.server_address[:2]}), flush=True)
    # Requests that are under way are answered.
    server.daemon_threads = False
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    server.server_close()

