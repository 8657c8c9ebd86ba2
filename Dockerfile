# docker build -t tandem .
# docker run -p 5984:5984 -v tandem:/data -e COUCHDB_USER=admin -e COUCHDB_PASSWORD=… tandem
FROM node:22-slim AS build
WORKDIR /tandem
COPY package.json package-lock.json ./
RUN npm ci
COPY . .
RUN npm run build:program && npm prune --omit=dev && \
    find node_modules -type f \( -name '*.map' -o -name '*.ts' \) -delete

FROM node:22-slim
WORKDIR /tandem
COPY --from=build /tandem/package.json /tandem/LICENSE ./
COPY --from=build /tandem/node_modules node_modules
COPY --from=build /tandem/bin bin
COPY --from=build /tandem/dist/program dist/program
COPY --from=build /tandem/dist/dashboard dist/dashboard
COPY --from=build /tandem/dist/demo dist/demo
# The store is in /data/store, and the key that seals its secrets is next to it.
RUN ln -s /tandem/bin/tandem.mjs /usr/local/bin/tandem && install -d -o node -g node /data
ENV NODE_ENV=production \
    TANDEM_BIND_ADDRESS=0.0.0.0 \
    TANDEM_DATA_DIR=/data/store
USER node
VOLUME ["/data"]
EXPOSE 5984
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["node", "-e", "fetch('http://127.0.0.1:5984/_up').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["tandem"]
CMD ["serve"]
