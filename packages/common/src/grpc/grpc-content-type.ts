/** Whether a content type is gRPC's: `application/grpc`, `application/grpc+proto`, `...;...`. */
export function isGrpcContentType(contentType: string | undefined): boolean {
  return /^application\/grpc(?:[+;]|$)/i.test(contentType ?? "");
}
