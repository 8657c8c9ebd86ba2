# The image of the Dockerfile with the additional requirements of a node on FoundationDB: the client library and the npm package.
#
#   docker build -t tandem . && docker build -t tandem-foundationdb -f examples/foundationdb.Dockerfile .
FROM docker.io/foundationdb/foundationdb:7.3.63 AS client

FROM tandem
USER root
COPY --from=client /usr/lib/libfdb_c.so /usr/lib/
RUN npm install --no-save --save-optional --omit=dev foundationdb@2.0.1
USER node
