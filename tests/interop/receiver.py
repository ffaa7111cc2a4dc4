"""A webhook: takes what is posted to it on a free port and keeps it for the suites to look at."""
import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Everything that was posted, by the path it was posted to."""

    def __init__(self):
        self.got = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.got.append((self.path, headers, json.loads(body)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, name):
        """An address of its own for every use."""
        return f"http://127.0.0.1:{self.server.server_port}/{name}"

    async def until(self, name, wanted):
        """Waits for a notification that is as wanted: its headers and its body."""
        while True:
            for path, headers, body in list(self.got):
                if path == f"/{name}" and wanted(body):
                    return headers, body
            await asyncio.sleep(0.02)
