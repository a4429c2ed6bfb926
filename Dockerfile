# Every Number with its embedded model, ready to serve.
#
#   docker build -t every-number .
#   docker run --rm -p 8000:8000 every-number
#
# On x86-64 the ordinary torch brings several GB for graphics cards. With PyTorch's CPU package index the image is
# small: docker build --build-arg TORCH_INDEX=<the address of that index> -t every-number .
#
# It runs as an ordinary user with a read-only root file system (docker run --read-only). Published checkpoints that
# are fetched, or put there, lie in /models: mount a volume to keep them.

FROM python:3.11-slim AS build
ARG TORCH_INDEX=""
RUN python -m venv /opt/venv
WORKDIR /build
COPY pyproject.toml constraints.txt ./
# There are no packages here yet, so this installs what the project needs and an empty project, which goes again, as do
# torch's own tests and its headers.
RUN /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check \
      ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c constraints.txt . \
 && /opt/venv/bin/pip uninstall -y every-number \
 && rm -rf /opt/venv/lib/python3*/site-packages/torch/test /opt/venv/lib/python3*/site-packages/torch/include

FROM python:3.11-slim
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HF_HOME=/models/hub \
    EVERYNUMBER_MODELS=/models \
    EVERYNUMBER_HOST=0.0.0.0 \
    EVERYNUMBER_PORT=8000 \
    EVERYNUMBER_LOG=json \
    EVERYNUMBER_LOG_LEVEL=info
RUN apt-get update && apt-get install -y --no-install-recommends fonts-dejavu-core && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 10001 reader
RUN mkdir -p /models/hub && chown -R 10001:10001 /models
WORKDIR /srv/every-number
COPY --from=build /opt/venv /opt/venv
COPY model ./model
COPY app ./app
COPY templates ./templates
COPY static ./static
RUN python -m compileall -q app model
USER reader
VOLUME /models
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['EVERYNUMBER_PORT'] + '/healthz', timeout=4)"]
CMD ["python", "-m", "app"]
