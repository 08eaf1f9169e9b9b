# albert_tf on CPUs, for training, predicting and serving: docs/serving.md.
FROM python:3.11.14-slim-bookworm

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/home/albert

# The home is for caches, also with `docker run --user`.
RUN useradd --uid 1000 --create-home albert && chmod 777 /home/albert

WORKDIR /source
COPY LICENSE README.md pyproject.toml requirements.txt setup.py ./
COPY albert_tf albert_tf
COPY export export
COPY official_configs official_configs
RUN pip install --use-pep517 --constraint requirements.txt \
    '.[download,onnx,plots,serve,tasks]' fastapi

USER albert
WORKDIR /work
EXPOSE 8000
ENTRYPOINT ["albert"]
CMD ["--help"]
