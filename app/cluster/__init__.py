"""The same app on many replicas, run by Ray Serve (the `scale` extra): see docs/operations.md.

`routing` says where a request goes, `replica` answers it with the ordinary app, `front` passes it on, and
`application` puts the deployments together. Nothing else imports this package.
"""
