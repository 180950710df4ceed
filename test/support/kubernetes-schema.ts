import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Ajv } from "ajv";
import type { AnySchemaObject, ValidateFunction } from "ajv";
import ts from "typescript";

// The Kubernetes API as JSON Schema, made from `kubernetes-types`: declarations that are generated
// from Kubernetes' OpenAPI document, one interface for each of its definitions. Made by syntax alone,
// which takes a fraction of a second. No interface allows fields that it does not name.

/** A field of an API object that is not as the schema says. */
export type SchemaProblem = string;

/**
 * What is wrong with an API object by the schema of its kind; nothing for one that is right.
 *
 * @throws if there is no such kind.
 */
export function kubernetesProblems(object: {
  readonly apiVersion: string;
  readonly kind: string;
}): SchemaProblem[] {
  const { apiVersion, kind } = object;
  const [group = "core", version = apiVersion] = apiVersion.includes("/")
    ? apiVersion.split("/")
    : [];
  // The folder is the group's first label: rbac for rbac.authorization.k8s.io.
  const file = join(TYPES_FOLDER, group.split(".")[0]!, `${version}.d.ts`);
  const validate = validatorOf(file, kind);
  if (validate(object)) return [];
  return (validate.errors ?? []).map(({ instancePath, message, params }) => {
    return `${instancePath} ${message ?? ""} ${JSON.stringify(params)}`;
  });
}

const TYPES_FOLDER = dirname(
  createRequire(import.meta.url).resolve("kubernetes-types/package.json"),
);

const ajv = new Ajv({ allErrors: true, allowUnionTypes: true });

function validatorOf(file: string, name: string): ValidateFunction {
  const key = schemaKey(file, name);
  define(file, name);
  const validate = ajv.getSchema(key);
  if (validate === undefined) throw new Error(`${name} is not in ${file}`);
  return validate;
}

function schemaKey(file: string, name: string): string {
  return `kubernetes:${file.slice(TYPES_FOLDER.length + 1, -".d.ts".length)}/${name}`;
}

/** Add the schema of a declaration, and of all that it refers to. */
function define(file: string, name: string): void {
  const key = schemaKey(file, name);
  if (defined.has(key)) return;
  defined.add(key);
  const declaration = declarationsOf(file).types.get(name);
  if (declaration === undefined) throw new Error(`${name} is not declared in ${file}`);
  const schema = ts.isInterfaceDeclaration(declaration)
    ? objectSchema(declaration.members, file)
    : typeSchema(declaration.type, file);
  ajv.addSchema({ $id: key, ...schema });
}

const defined = new Set<string>();

type TypeDeclaration = ts.InterfaceDeclaration | ts.TypeAliasDeclaration;

interface Declarations {
  readonly types: ReadonlyMap<string, TypeDeclaration>;
  /** The file that an imported name is declared in. */
  readonly imports: ReadonlyMap<string, string>;
}

const parsedFiles = new Map<string, Declarations>();

function declarationsOf(file: string): Declarations {
  const parsed = parsedFiles.get(file) ?? parse(file);
  parsedFiles.set(file, parsed);
  return parsed;
}

function parse(file: string): Declarations {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest);
  const types = new Map<string, TypeDeclaration>();
  const imports = new Map<string, string>();
  for (const statement of source.statements) {
    if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) {
      types.set(statement.name.text, statement);
    } else if (ts.isImportDeclaration(statement)) {
      const from = (statement.moduleSpecifier as ts.StringLiteral).text;
      const bindings = statement.importClause?.namedBindings;
      if (bindings === undefined || !ts.isNamedImports(bindings)) continue;
      for (const { name } of bindings.elements) {
        imports.set(name.text, join(dirname(file), `${from}.d.ts`));
      }
    }
  }
  return { types, imports };
}

function objectSchema(members: ts.NodeArray<ts.TypeElement>, file: string): AnySchemaObject {
  const properties: Record<string, AnySchemaObject> = {};
  const required: string[] = [];
  for (const member of members) {
    if (ts.isIndexSignatureDeclaration(member)) {
      return { type: "object", additionalProperties: typeSchema(member.type, file) };
    }
    if (!ts.isPropertySignature(member) || member.type === undefined) throw unknownSyntax(member);
    const name = (member.name as ts.Identifier | ts.StringLiteral).text;
    properties[name] = typeSchema(member.type, file);
    if (member.questionToken === undefined) required.push(name);
  }
  return { type: "object", properties, required, additionalProperties: false };
}

function typeSchema(type: ts.TypeNode, file: string): AnySchemaObject {
  if (ts.isTypeLiteralNode(type)) return objectSchema(type.members, file);
  if (ts.isArrayTypeNode(type)) {
    return { type: "array", items: typeSchema(type.elementType, file) };
  }
  if (ts.isUnionTypeNode(type)) {
    return { anyOf: type.types.map((member) => typeSchema(member, file)) };
  }
  if (ts.isLiteralTypeNode(type) && ts.isStringLiteral(type.literal)) {
    return { const: type.literal.text };
  }
  if (ts.isTypeReferenceNode(type)) return referenceSchema(type, file);
  const schema = KEYWORD_SCHEMAS.get(type.kind);
  if (schema === undefined) throw unknownSyntax(type);
  return schema;
}

const KEYWORD_SCHEMAS: ReadonlyMap<ts.SyntaxKind, AnySchemaObject> = new Map([
  [ts.SyntaxKind.StringKeyword, { type: "string" }],
  [ts.SyntaxKind.BooleanKeyword, { type: "boolean" }],
  // Every number of the kinds we use is a whole one.
  [ts.SyntaxKind.NumberKeyword, { type: "integer" }],
]);

function referenceSchema(type: ts.TypeReferenceNode, file: string): AnySchemaObject {
  const name = (type.typeName as ts.Identifier).text;
  const item = type.typeArguments?.[0];
  if (name === "Array" && item !== undefined) {
    return { type: "array", items: typeSchema(item, file) };
  }
  const home = declarationsOf(file).imports.get(name) ?? file;
  define(home, name);
  return { $ref: schemaKey(home, name) };
}

function unknownSyntax(node: ts.Node): Error {
  return new Error(`no JSON Schema for a ${ts.SyntaxKind[node.kind]} in kubernetes-types`);
}
