from albert_tf.server.metrics import Metrics


def test_text_format():
    metrics = Metrics()
    for seconds in (0.004, 0.01, 20):
        metrics.request("/embed", 200, seconds)
    metrics.request("/embed", 400, 0.5)
    metrics.batch("/embed", 3)
    lines = metrics.text(waiting=7).splitlines()
    for line in (
        "# TYPE albert_requests_total counter",
        'albert_requests_total{path="/embed",status="200"} 3',
        'albert_requests_total{path="/embed",status="400"} 1',
        "# TYPE albert_request_seconds histogram",
        # A bound belongs to its bucket, and buckets are cumulative.
        'albert_request_seconds_bucket{path="/embed",le="0.005"} 1',
        'albert_request_seconds_bucket{path="/embed",le="0.01"} 2',
        'albert_request_seconds_bucket{path="/embed",le="10.0"} 3',
        'albert_request_seconds_bucket{path="/embed",le="+Inf"} 4',
        'albert_request_seconds_sum{path="/embed"} 20.514000',
        'albert_request_seconds_count{path="/embed"} 4',
        'albert_batch_texts_bucket{task="/embed",le="2"} 0',
        'albert_batch_texts_bucket{task="/embed",le="4"} 1',
        "albert_waiting_texts 7",
    ):
        assert line in lines
