"""A collector: OTLP over gRPC and over HTTP, by the messages that the OpenTelemetry project publishes for Python.

Prints one JSON line with both ports, then one for each export: signal, way, headers, and the decoded message.
Standard input ends it.
"""
import http.server, json, sys, threading
from concurrent import futures

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs, logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics, metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace, trace_service_pb2_grpc as trace_grpc

lock = threading.Lock()


def tell(value):
    with lock:
        print(json.dumps(value), flush=True)


def took(signal, way, headers, request):
    tell({'signal': signal, 'way': way, 'headers': headers, 'message': MessageToDict(request)})


def servicer(base, signal, response):
    class Servicer(base):
        def Export(self, request, context):
            took(signal, 'grpc', {k: v for k, v in context.invocation_metadata() if isinstance(v, str)}, request)
            return response()
    return Servicer()


KINDS = {
    '/v1/traces': ('traces', trace.ExportTraceServiceRequest, trace.ExportTraceServiceResponse),
    '/v1/metrics': ('metrics', metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    '/v1/logs': ('logs', logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse),
}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length']))
        if self.path not in KINDS or self.headers['content-type'] != 'application/x-protobuf':
            tell({'signal': 'odd', 'way': 'http', 'headers': dict(self.headers), 'message': self.path})
            self.send_error(400)
            return
        signal, request, response = KINDS[self.path]
        took(signal, 'http', {k.lower(): v for k, v in self.headers.items()}, request.FromString(body))
        answer = response().SerializeToString()
        self.send_response(200)
        self.send_header('content-type', 'application/x-protobuf')
        self.send_header('content-length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


server = grpc.server(futures.ThreadPoolExecutor(4))
trace_grpc.add_TraceServiceServicer_to_server(
    servicer(trace_grpc.TraceServiceServicer, 'traces', trace.ExportTraceServiceResponse), server)
metrics_grpc.add_MetricsServiceServicer_to_server(
    servicer(metrics_grpc.MetricsServiceServicer, 'metrics', metrics.ExportMetricsServiceResponse), server)
logs_grpc.add_LogsServiceServicer_to_server(
    servicer(logs_grpc.LogsServiceServicer, 'logs', logs.ExportLogsServiceResponse), server)
port = server.add_insecure_port('127.0.0.1:0')
server.start()
plain = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
plain.daemon_threads = True
threading.Thread(target=plain.serve_forever, daemon=True).start()
tell({'grpc': port, 'http': plain.server_address[1]})
sys.stdin.read()
server.stop(0)
