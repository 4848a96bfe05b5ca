# The server in a container, see docs/server.md:  docker build -t zoetrope .
#   docker run --rm zoetrope key alice                    # a secret, and the line for keys.json
#   docker run -d -p 8080:8080 -v zoetrope:/var/lib/zoetrope -v ./keys.json:/etc/zoetrope/keys.json:ro zoetrope
# Another model: -v /srv/MiniMax-H3:/model:ro, and after the image's name the whole command line with --model /model.
FROM debian:12-slim AS build
WORKDIR /zoetrope
COPY script/packages script/packages
RUN apt-get update \
 && grep -Ev '^(#|postgresql$|python|clang|libclang|ffmpeg|ccache|git$)' script/packages | xargs apt-get install -y --no-install-recommends
COPY . .
RUN cmake -S . -B build -G Ninja && ninja -C build zoetrope && cmake --install build --strip --prefix /usr/local

FROM debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
    ca-certificates libavcodec59 libavformat59 libavutil57 libcurl4 libfmt9 libjpeg62-turbo libpcre2-8-0 libpq5 libspdlog1.10 \
    libsqlite3-0 libssl3 libswresample4 libswscale6 libutf8proc2 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /var/lib/zoetrope --create-home zoetrope
COPY --from=build /usr/local/bin/zoetrope /usr/local/bin/zoetrope
COPY --from=build /usr/local/share/zoetrope /usr/local/share/zoetrope
USER zoetrope
VOLUME /var/lib/zoetrope
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["zoetrope"]
CMD ["serve", "--host", "0.0.0.0", "--data", "/var/lib/zoetrope", "--keys", "/etc/zoetrope/keys.json"]
