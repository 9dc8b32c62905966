"""Owns a real etcd as people run it: TLS by a CA of its own, which may ask for certificates, and users with passwords."""

import base64
import json
import pathlib
import ssl
import subprocess
import urllib.error
import urllib.request

from etcd import PROGRAM, Etcd
from waiting import LIMIT_S, wait_until


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Papers:
    """A CA, and what it has certified: the server at `host`, and one client."""

    def __init__(self, place, host):
        self.place = pathlib.Path(place)
        self.authority = self.place / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test CA", "-days", 3650,
                "-keyout", self.place / "ca.key", "-out", self.authority)
        for name, extension in (("server", f"subjectAltName=IP:{host}\nextendedKeyUsage=serverAuth,clientAuth"),
                                ("client", "extendedKeyUsage=clientAuth")):
            (self.place / f"{name}.ext").write_text(extension)
            openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout",
                    self.place / f"{name}.key", "-out", self.place / f"{name}.csr")
            openssl("x509", "-req", "-in", self.place / f"{name}.csr", "-CA", self.authority, "-CAkey", self.place / "ca.key", "-CAcreateserial",
                    "-days", 3650, "-extfile", self.place / f"{name}.ext", "-out", self.place / f"{name}.pem")

    def context(self):
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.place / "client.pem", self.place / "client.key")
        return context


class GuardedEtcd(Etcd):
    """`certificates`: only who shows one of its CA is let in. `quota`: bytes that it may hold."""

    def __init__(self, certificates=False, quota=None):
        self.certificates, self.quota, self.papers, self.token = certificates, quota, None, None
        super().__init__()

    def start(self):
        if not self.papers:
            self.url = self.url.replace("http:", "https:")
            self.papers = Papers(self.directory, self.url.split("/")[2].split(":")[0])
        command = [PROGRAM, "--data-dir", self.directory / "data", "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                   "--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url,
                   "--initial-cluster", f"default={self.peer_url}", "--cert-file", self.papers.place / "server.pem",
                   "--key-file", self.papers.place / "server.key"]
        if self.certificates:
            command += ["--client-cert-auth", "--trusted-ca-file", self.papers.authority]
        if self.quota:
            command += ["--quota-backend-bytes", str(self.quota)]
        with open(self.directory / "etcd.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until("etcd", self.answers)

    def ask(self, method, **body):
        headers = {"Authorization": self.token} if self.token else {}
        request = urllib.request.Request(self.url + method, data=json.dumps(body).encode(), method="POST", headers=headers)
        with urllib.request.urlopen(request, timeout=LIMIT_S, context=self.papers.context()) as answer:
            return json.load(answer)

    def answers(self):
        try:
            self.ask("/v3/maintenance/status")
            return True
        except OSError:
            return False

    def let_in_only(self, user, password, right="READWRITE"):
        """From now on nobody else may do anything; this one only below /prime/."""
        text = lambda word: base64.b64encode(word.encode()).decode()  # noqa: E731
        for name, secret in (("root", "top"), (user, password)):
            self.ask("/v3/auth/user/add", name=name, password=secret)
            self.ask("/v3/auth/role/add", name=name)
            self.ask("/v3/auth/user/grant", user=name, role=name)
        self.ask("/v3/auth/role/grant", name=user, perm={"permType": right, "key": text("/prime/"), "range_end": text("/prime0")})
        self.ask("/v3/auth/enable")

    def fill(self):
        """Until it takes nothing more."""
        value = base64.b64encode(bytes(100_000)).decode()
        for number in range(1000):
            try:
                self.ask("/v3/kv/put", key=base64.b64encode(str(number).encode()).decode(), value=value)
            except urllib.error.HTTPError:
                return
        raise AssertionError("it is never full")
